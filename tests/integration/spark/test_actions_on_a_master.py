"""Each action on tables as a command with --master: a Spark job with as many tasks as --parallelism says."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from penstock.pipelines.commands.main import main
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from tests.invariants import check_invariants
from tests.unit.table.operations.test_compact_units import made
from tests.unit.table.tables import content

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ORDERS = "--database shop --table orders"
COPY = "--target-warehouse {folder} --target-database shop --target-table copied"
# By the name of an action: its flags, the kind of table, and whether the copy and not the table is looked at.
ACTIONS: dict[str, tuple[str, str, bool]] = {
    "compact": (ORDERS, "keys", False),
    "compact sorted": (f"{ORDERS} --order-strategy zorder --order-by id,v", "append", False),
    "compact-database": ("--including-databases shop --mode combined", "keys", False),
    "delete": (f"{ORDERS} --where 'id < 100'", "keys", False),
    "delete without a key": (f"{ORDERS} --where 'id < 100'", "append", False),
    "rescale": (f"{ORDERS} --partition dt=day-0 --bucket-num 6", "keys", False),
    "clone": (f"{ORDERS} {COPY}", "keys", True),
    "copy-files": (f"{ORDERS} {COPY}", "keys", True),
    "remove-orphan-files": (f"{ORDERS} --older-than '2000-01-01 00:00:00'", "keys", False),
    "analyze": (ORDERS, "keys", False),
}


def tasks_of(folder: Path) -> list[int]:
    """The number of tasks of each stage that ran, by the event logs of the sessions."""
    lines = [line for path in folder.rglob("*") if path.is_file() for line in path.read_text().splitlines()]
    events = [json.loads(line) for line in lines if line.startswith('{"Event"')]
    return [
        event["Stage Info"]["Number of Tasks"] for event in events if event["Event"] == "SparkListenerStageCompleted"
    ]


def left_behind(table: Table) -> Path:
    path = next(Path(table.path).rglob("bucket-0")) / "data-9.parquet"
    path.write_bytes(b"left behind")
    os.utime(path, (1, 1))
    return path


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_runs_as_tasks_of_the_master(action: str, tmp_path: Path) -> None:
    flags, kind, is_copied = ACTIONS[action]
    lake, logs = tmp_path / "lake", tmp_path / "events"
    logs.mkdir()
    table = made(lake, kind)
    before, orphan = content(table), left_behind(table)
    words = [action.partition(" ")[0], "--warehouse", str(lake), *shlex.split(flags.format(folder=lake))]
    words += ["--master", "local[4]", "--parallelism", "2"]
    for setting in ("enabled=true", "compress=false", f"dir={logs.as_uri()}"):
        words += ["--spark-conf", f"spark.eventLog.{setting}"]
    assert main(words) == 0
    found = tasks_of(logs)
    assert found != []
    assert max(found) == 2
    changed = Catalog(str(lake)).table("shop.copied" if is_copied else "shop.orders")
    if action.startswith("delete"):
        before = [row for row in before if int(str(row[1])) >= 100]
    assert content(changed) == before
    assert orphan.exists() == (action != "remove-orphan-files")
    orphan.unlink(missing_ok=True)
    check_invariants(changed)
