"""The output of `penstock status` for running, failed and killed drivers, idle streams and tables without snapshots."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SchemaConflict
from penstock.ingest.connector import LOG_BYTES
from penstock.pipelines.commands.main import main
from penstock.pipelines.ledger.batch_logs import CheckpointProgress
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.pipeline_state import PipelineState, TableStatus
from penstock.pipelines.monitor.run_monitor import RunMonitor
from penstock.pipelines.monitor.status import letters_kept, state_of
from penstock.pipelines.monitor.status_text import as_facts, as_lines, place
from penstock.pipelines.tasks.dead_letter_table import ensure
from tests.here import run
from tests.shop import Shop, insert
from tests.unit.pipelines.monitor.test_run_monitor import Noted

NOW = 1_800_000_000_000


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def state(driver: dict[str, Any] | None = None, *tables: TableStatus, **more: Any) -> PipelineState:
    given: dict[str, Any] = {"driver": driver, "paused": False, "tables": tables, "now_millis": NOW}
    return PipelineState("shop", "/checkpoint", CheckpointProgress(1, 1), **given | more)


def driver(**more: Any) -> dict[str, Any]:
    return {"state": "running", "host": socket.gethostname(), "pid": os.getpid(), "heard_millis": NOW} | more


@pytest.fixture
def ended() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_driver_of_this_machine_without_its_process_has_ended(ended: int) -> None:
    assert state(driver()).state == "running"
    assert state(driver(pid=ended)).state == "dead"
    assert state(driver(pid=ended, host="another")).state == "running"
    assert state(driver(pid=ended, host="another", heard_millis=NOW - 61_000)).state == "dead"
    assert state(driver(pid=ended, state="stopped")).state == "stopped"


def test_the_exit_code_shows_if_the_driver_failed_or_was_killed(
    shop: Shop, ended: int, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    spec = shop.spec()
    run(spec)
    folder = CheckpointFolder(spec.checkpoint)
    words = ["status", "shop", "--warehouse", shop.warehouse.warehouse, "--checkpoint", spec.checkpoint]
    contact = {"heard_millis": time.time_ns() // 1_000_000}
    found = {}
    for name, status in {
        "running": driver(**contact),
        "dead": driver(**contact, pid=ended),
        "failed": driver(state="failed", error="E: no", hint="do this"),
        "stopped": driver(state="stopped"),
    }.items():
        folder.put_status(status)
        found[name] = main(words)
    assert found == {"running": 0, "dead": 1, "failed": 1, "stopped": 0}
    assert "error  E: no\n  to repair  do this\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failed", "hint"),
    [
        (SchemaConflict("it does not fit", hint="widen it"), "widen it"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/x"), "the disk is full"),
    ],
)
def test_a_failed_run_records_its_hint_in_the_checkpoint(shop: Shop, failed: Exception, hint: str) -> None:
    folder = CheckpointFolder(f"{shop.folder}/checkpoint")
    with pytest.raises(type(failed)), RunMonitor("shop", folder, shop.warehouse, Noted(), Noted(), 1.0):
        raise failed
    assert (folder.status() or {})["hint"].startswith(hint)


def test_an_idle_stream_has_no_rate_and_its_copied_tables_are_fresh() -> None:
    status = {"rows_per_second": 82_372.0, "tables": {"ods.a": {"rows_per_second": 82_372.0}}}
    busy = state(driver(committed_millis=NOW - 1000, **status), TableStatus("ods.a", 0, 1))
    assert as_facts(busy)["tables"][0]["rows_per_second"] == 82_372
    idle = state(
        driver(committed_millis=NOW - 120_000, caught_up_millis=NOW - 3000, **status), TableStatus("ods.a", 0, 1)
    )
    [table] = as_facts(idle)["tables"]
    assert (table["rows_per_second"], table["fresh_seconds"]) == (0, 3)
    parked = {"ods.a": {"batch": 1, "error": "E", "reason": "no"}}
    idle = state(driver(caught_up_millis=NOW), TableStatus("ods.a", 0, 1), parked=parked)
    assert idle.fresh_seconds(idle.tables[0]) is None


def test_a_table_without_rows_of_the_newest_batch_has_no_rate(shop: Shop) -> None:
    with RunMonitor("shop", CheckpointFolder(f"{shop.folder}/c"), shop.warehouse, Noted(), Noted(), 1.0) as watch:
        for number, table in enumerate(("orders", "users")):
            shop.put(f"{number}.json", insert(table, {"id": 1}))
            run(shop.spec(), on_batch=watch.on_batch)
        rates = {table: item["rows_per_second"] > 0 for table, item in watch.facts["tables"].items()}
    assert rates == {"ods.orders": False, "ods.users": True}


def test_tables_without_snapshots_of_the_pipeline_are_listed(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    spec = shop.spec()
    run(spec)
    for path in (Path(shop.warehouse.warehouse) / "ods.db/orders/snapshot").iterdir():
        path.unlink()
    assert state_of("shop", spec.checkpoint, shop.warehouse, ()).tables == ()
    [table] = state_of("shop", spec.checkpoint, shop.warehouse, ["ods"]).tables
    assert (table.table, table.snapshot, table.records) == ("ods.orders", None, 0)


def test_dead_letters_are_counted_again_after_a_rollback_although_the_snapshot_has_the_same_id(shop: Shop) -> None:
    ensure(shop.warehouse, "ods.letters")
    table = shop.table("letters")

    def add(*targets: str) -> None:
        rows = [{"pipeline": "shop", "target_table": target} for target in targets]
        with table.refresh().writer() as writer:
            writer.write(pa.Table.from_pylist(rows, schema=table.schema))
            writer.commit()

    add("ods.a")
    add("ods.b")
    assert letters_kept(shop.warehouse, ["ods.letters"], "shop") == {"ods.a": 1, "ods.b": 1}
    table.refresh().rollback_to(1)
    add("ods.c", "ods.c")
    assert letters_kept(shop.warehouse, ["ods.letters"], "shop") == {"ods.a": 1, "ods.c": 2}


def test_a_table_that_is_not_captured_any_more_does_not_stream(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.put("1.json", insert("orders", {"id": 1}) + "\n" + insert("users", {"id": 1}))
    spec = shop.spec()
    run(spec)
    shop.put("2.json", insert("users", {"id": 2}) + "\n" + insert("orders", {"id": 2}))
    run(shop.spec(selection={"excluding-tables": "users"}))
    main(["status", "shop", "--warehouse", shop.warehouse.warehouse, "--checkpoint", spec.checkpoint])
    lines = capsys.readouterr().out.splitlines()
    [orders], [users] = ([line for line in lines if line.startswith(f"ods.{name} ")] for name in ("orders", "users"))
    assert "streaming" in orders
    assert "left out" in users
    assert users.endswith("not captured any more: shop.users")
    found = state_of("shop", spec.checkpoint, shop.warehouse, ["ods"])
    found = replace(found, lag={"log": 0})
    fresh = {table["table"]: table["fresh_seconds"] for table in as_facts(found)["tables"]}
    assert fresh["ods.orders"] == 0
    assert fresh["ods.users"] != 0
    run(shop.spec(pipeline={"accept-gap": True}))
    assert state_of("shop", spec.checkpoint, shop.warehouse, ["ods"]).uncaptured == {}


def test_positions_are_shown_as_users_write_them() -> None:
    log = {"log": {"file": "binlog.000012", "pos": 4567, "gtid": "33df-1"}, "server": "33df", "v": 1}
    assert place(log) == "binlog.000012:4567"
    wal = {"log": "16/B374D848", "known": [["public", "a"]]}
    assert place(wal) == "16/B374D848"
    assert place(wal | {"waiting": [["public", "b"]], "rest": [7]}) == "16/B374D848, 2 tables to copy"
    assert place(log | {"waiting": [["shop", "a"]], "cursors": [{"table": "b"}]}) == (
        "binlog.000012:4567, 2 tables to copy"
    )
    assert json.loads(place({"batch": 3, "now": 1})) == {"batch": 3}
    assert json.loads(place({"log": {"scn": 7}})) == {"log": {"scn": 7}}


def test_tables_that_users_copy_again_are_listed() -> None:
    requests = (("1.json", ("shop.a",), ""), ("2.json", ("shop.b", "c"), "id > 1"), ("3.json", ("d",), "taken = 1"))
    requests += (("reset-4f", (), ""),)
    position = {
        "log": {"file": "binlog.000012", "pos": 4567},
        "signals": ["3.json"],
        "parts": [["shop", "d", "taken = 1"]],
        "refused": ["shop.e where x: no such column"],
    }
    found = state(None, requests=requests)
    head, _, _, foot = as_lines(found, as_facts(found, position), lambda *words: "")
    assert head[1] == "source at binlog.000012:4567, 1 table to copy"
    assert foot == [
        "copy requested  shop.a",
        "copy requested  shop.b, c where id > 1",
        "copy requested  all tables",
        "copying again  shop.d where taken = 1",
        "copy refused  shop.e where x: no such column",
    ]


def test_caught_up_names_the_compared_position() -> None:
    position = {"log": {"file": "binlog.000012", "pos": 4567}}
    found = state(None, lag={"log": 0}, lag_unit=LOG_BYTES)
    head, *_ = as_lines(found, as_facts(found, position), lambda *words: "")
    assert head[1] == "source at binlog.000012:4567   caught up with the end of the binlog; compare rows with" + (
        "  penstock verify"
    )
