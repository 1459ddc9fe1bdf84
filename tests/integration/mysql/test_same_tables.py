"""One workload, through our own reading of the log and through what Debezium and canal recorded of it: the same tables,
but for what those tools are known to lose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.run.tables import Warehouse
from penstock.pipelines.spec.model import PipelineSpec
from penstock.table.handle import Table
from tests.here import run
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

pytestmark = pytest.mark.mysql

RECORDED = Path(__file__).resolve().parents[2] / "data/cdc-recorded"
TABLES = {"orders": "order_id", "two_keys": "region"}


@pytest.fixture(scope="module")
def ours(mysql: Playground, tmp_path_factory: pytest.TempPathFactory) -> Sync:
    mysql.start_over()
    folder = tmp_path_factory.mktemp("ours")
    sync = Sync(mysql, folder, conf=["database-name=rec"])
    mysql.run(*statements("workload-1-before.sql"))
    sync.run()
    mysql.run(*statements("workload-2-during.sql"))
    sync.run()
    return sync


def statements(name: str) -> list[str]:
    lines = (RECORDED / name).read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    found, quoted, start = [], "", 0
    for place, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'`\"":
            quoted = character
        elif character == ";":
            found.append(text[start:place].strip())
            start = place + 1
    return [one for one in found if one]


def recorded(folder: Path, value_format: str, messages: list[dict[str, Any]]) -> Callable[[str], list[dict[str, Any]]]:
    """The tables that a recording makes."""
    (folder / "inbox").mkdir(parents=True)
    lines = "\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
    (folder / "inbox/1.json").write_text(lines + "\n", encoding="utf-8")
    spec = PipelineSpec.model_validate(
        {
            "pipeline": {"name": "recorded"},
            "source": {"type": "files", "path": f"{folder}/inbox", "value.format": value_format},
            "selection": {"including-tables": "|".join(TABLES)},
            "sink": {
                "catalog": {"warehouse": f"{folder}/warehouse"},
                "database": "ods",
            },
        }
    )
    run(spec)
    return lambda name: rows(Table(Warehouse.of(f"{folder}/warehouse", {}).store(f"ods.{name}")), TABLES[name])


def rows(table: Table, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row[key]))


def agree(ours: Sync, theirs: Callable[[str], list[dict[str, Any]]]) -> None:
    """All rows that the recording has. It lacks those that were there before it began and were never changed (canal),
    and those that a table had before it was renamed."""
    for name, key in TABLES.items():
        mine = {identity(row, key): row for row in rows(ours.target(name), key)}
        others = {identity(row, key): row for row in theirs(name)}
        assert others.keys() <= mine.keys()
        assert len(others) >= len(mine) / 2
        for place, other in others.items():
            common = other.keys() & mine[place].keys()
            assert {column: mine[place][column] for column in common} == {column: other[column] for column in common}


def identity(row: dict[str, Any], key: str) -> tuple[object, ...]:
    return row[key], row.get("id")


def test_canal_tells_the_same(ours: Sync, tmp_path: Path) -> None:
    lines = (RECORDED / "canal/mysql-9.7_canal-1.1.7_flat.jsonl").read_text(encoding="utf-8").splitlines()
    agree(ours, recorded(tmp_path, "canal-json", [json.loads(line) for line in lines]))


def test_debezium_tells_the_same(ours: Sync, tmp_path: Path) -> None:
    lines = (RECORDED / "debezium/mysql-9.7_debezium-3.6.1_schemas.jsonl").read_text(encoding="utf-8").splitlines()
    messages = []
    for line in lines:
        record = json.loads(line)
        value, key = record["value"], record.get("key")
        if value is not None and value.get("payload", {}).get("op") and key:
            value["payload"]["pkNames"] = list(key["payload"])
            messages.append(value)
    agree(ours, recorded(tmp_path, "debezium-json", messages))
