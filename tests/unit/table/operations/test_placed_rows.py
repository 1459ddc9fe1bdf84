"""Rows of tables without a key with their places, and the ids that they keep."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

import penstock
from penstock.table.operations.changed_files import ChangedFiles
from penstock.table.operations.placed_rows import FILE, ROW, LocatedRows
from tests.invariants import check_invariants
from tests.unit.table.tables import new_table, rows


def placed(table: penstock.Table) -> LocatedRows:
    store = table.scan().store
    return LocatedRows(ChangedFiles(store, store.snapshots.latest()))


def test_files_that_a_filter_excludes_have_no_number(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    for number in (1, 2, 3):
        with table.writer() as writer:
            writer.write(rows(table, (number, "a", None), (number, "b", None)))
            writer.commit()
    found = placed(table)
    [batch] = found.read(("name", FILE, ROW), (pc.field("id") == 2) & (pc.field("name") == "b"))
    assert batch.to_pylist() == [{"name": "b", FILE: 0, ROW: 1}]
    assert len(found.files) == 1


@pytest.mark.slow
@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_keep_their_ids(tmp_path: Path, file_format: str, vectors: str) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    options = f"""'row-tracking.enabled' = 'true', 'deletion-vectors.enabled' = '{vectors}',
        'file.format' = '{file_format}'"""

    def run(script: str) -> None:
        penstock.sql(script, tmp_path, database="d")

    catalog.create_database("d")
    run(f"CREATE TABLE t (id INT, v STRING) WITH ({options}); INSERT INTO t SELECT range, 'x' FROM range(6)")
    run("UPDATE t SET v = 'y' WHERE id IN (1, 3); DELETE FROM t WHERE id = 0; UPDATE t SET v = 'z' WHERE id IN (3, 4)")
    table = catalog.table("d.t")
    batches = placed(table).read(("id", "_ROW_ID"), None)
    found = sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())
    assert found == [(number, number) for number in range(1, 6)]
    run("INSERT INTO t VALUES (9, 'new')")
    ids = [row["_ROW_ID"] for batch in placed(table).read(None, pc.field("id") == 9) for row in batch.to_pylist()]
    assert ids[0] > 5
    assert table.scan(where=pc.field("v") == "z").count() == 2
    check_invariants(table)
