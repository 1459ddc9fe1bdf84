"""Rows kept for lookups go with their file: here when it leaves the table, elsewhere when the bucket is touched."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.table.compaction.lookup_store import LookupStore, lookup_folder
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.values.types import parse_type
from tests.unit.table.tables import ORDERS, new_table, rows

LOOKUP = {"bucket": "2", "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "50"}


def machine(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))


def write(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *((number, "x", None) for number in ids)))
        writer.commit()


def kept() -> set[str]:
    return {path.name.partition(".parquet")[0] for path in lookup_folder().glob("*.arrow")}


def live(table: Table) -> set[str]:
    latest = table.refresh().latest_snapshot
    assert latest is not None
    return {entry.file.name.removesuffix(".parquet") for entry in live_entries(table.store, latest)}


def test_a_worker_forgets_files_that_another_compacted_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, "here", monkeypatch)
    table = new_table(tmp_path, options=LOOKUP)
    write(table, *range(20_000))
    write(table, *range(3_000))
    there = kept()
    assert there
    assert there <= live(table)
    machine(tmp_path, "elsewhere", monkeypatch)
    table.compact(full=True, options={"compaction.force-rewrite-all-files": "true"})
    machine(tmp_path, "here", monkeypatch)
    assert kept() == there
    assert not kept() & live(table)
    write(table, *range(3_000))  # reaches both buckets
    assert not kept() & there


def test_merged_rows_of_a_bucket_stay_for_an_hour_after_their_last_use(tmp_path: Path) -> None:
    store, batch = LookupStore(tmp_path, 1 << 30), pa.RecordBatch.from_pydict({"id": [1, 2]})
    names = ["live-mark.a", "live-mark.a-rows", "gone-mark.a-rows", "content-mark.a-merged", "old-mark.a-merged"]
    for name in names:
        store.put(name, [batch], ["id"], [parse_type("BIGINT")])
    hours_ago = time.time() - 2 * 3600
    os.utime(tmp_path / "old-mark.a-merged.arrow", (hours_ago, hours_ago))

    store.keep_only("mark", {"live"})

    assert {path.stem for path in tmp_path.glob("*.arrow")} == {names[0], names[1], names[3]}


@pytest.mark.slow
def test_a_dropped_table_leaves_no_lookup_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, "here", monkeypatch)
    catalog = penstock.Catalog(str(tmp_path / "warehouse"))
    catalog.create_database("shop")
    for name in ("a", "b"):
        table = catalog.create_table(f"shop.{name}", schema=list(ORDERS), primary_keys=["id"], options=LOOKUP)
        write(table, *range(20_000))
        write(table, *range(3_000))
    both = kept()
    catalog.drop_table("shop.a")
    assert kept() == both & live(catalog.table("shop.b"))
    assert kept()


def test_lookup_rows_of_main_are_not_used_for_a_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, "here", monkeypatch)
    columns = [("id", "INT NOT NULL"), ("v", "INT"), ("t", "STRING")]
    catalog = penstock.Catalog(str(tmp_path / "warehouse"))
    catalog.create_database("d")
    main = catalog.create_table("d.t", columns, ["id"], options={"bucket": "1", "changelog-producer": "lookup"})
    every, ids = pa.array(range(20_000), pa.int32()), pa.array(range(3_000), pa.int32())

    def put(table: Table, **columns: object) -> None:
        with table.writer() as writer:
            writer.write(pa.table(columns))
            writer.commit()

    put(main, id=every, v=every, t=pa.array(["old"] * 20_000))
    main.compact()
    main.create_tag("x")
    main.create_branch("b", "x")
    catalog.alter_table("d.t", [penstock.DropColumn("v"), penstock.AddColumn("a", "INT")])
    catalog.alter_table("d.t$branch_b", [penstock.RenameColumn("v", "a")])
    put(catalog.table("d.t"), id=ids, t=pa.array(["x"] * 3_000), a=ids)  # keeps rows of the file both have, as schema 1
    branch = catalog.table("d.t$branch_b")
    put(branch, id=ids, a=pa.array([7] * 3_000, pa.int32()), t=pa.array(["y"] * 3_000))
    newest = branch.snapshots[-1].id
    changes = branch.changes(newest - 1, newest).to_pylist()
    before = {row["id"]: (row["a"], row["t"]) for row in changes if row["rowkind"] == "-U"}
    assert before == {number: (number, "old") for number in range(3_000)}
