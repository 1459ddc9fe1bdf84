"""Row ids that we write, as Java Paimon reads them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle


def tracked(oracle: Oracle, path: Path) -> dict[object, tuple[object, object]]:
    """Return the id and the version of each row, as Java reads them."""
    found = oracle.system(path, "row_tracking")
    at = [list(found.columns).index(name) for name in ("id", "_ROW_ID", "_SEQUENCE_NUMBER")]
    return {row[at[0]]: (row[at[1]], row[at[2]]) for row in found.rows}


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])  # Java cannot read the ids of its own Avro files
def test_rows_that_sql_changes_keep_their_ids(tmp_path: Path, oracle: Oracle, vectors: str, file_format: str) -> None:
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": vectors, "file.format": file_format}
    path = oracle.create(tmp_path, "db.t", [("id", "INT"), ("v", "STRING")], options=options)
    oracle.write(path, [("+I", number, "java") for number in range(5)])

    def run(statement: str) -> None:
        penstock.sql(statement, tmp_path, database="db")

    run("INSERT INTO t VALUES (5, 'ours')")
    run("UPDATE t SET v = 'new' WHERE id IN (1, 5)")
    before = {0: (0, 1), 1: (1, 3), 2: (2, 1), 3: (3, 1), 4: (4, 1), 5: (5, 3)}
    assert tracked(oracle, path) == before
    run("DELETE FROM t WHERE id = 0")
    run(
        """MERGE INTO t USING (SELECT range::INT AS id FROM range(4, 7)) AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = 'merged' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'merged')"""
    )
    found = tracked(oracle, path)
    new = found.pop(6)
    assert found == {1: (1, 3), 2: (2, 1), 3: (3, 1), 4: (4, 5), 5: (5, 5)}
    assert new[0] not in {row_id for row_id, _ in before.values()}
    assert new[1] == 5
    table = penstock.open_table(str(path))
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
    assert difference(oracle.system(path, "row_tracking"), table.system("row_tracking")) is None
    # Java counts on from there.
    oracle.write(path, [("+I", 7, "java")])
    assert len({row_id for row_id, _ in tracked(oracle, path).values()}) == 7


def test_java_reads_avro_files_with_row_ids(tmp_path: Path, oracle: Oracle) -> None:
    options = {"row-tracking.enabled": "true", "file.format": "avro"}
    path = oracle.create(tmp_path, "db.t", [("id", "INT"), ("v", "STRING")], options=options)
    oracle.write(path, [("+I", number, "java") for number in range(5)])
    penstock.sql("UPDATE t SET v = 'new' WHERE id = 1", tmp_path, database="db")
    assert difference(oracle.read(path), penstock.open_table(str(path)).scan().to_arrow()) is None


def test_java_reads_and_continues_our_row_ids(tmp_path: Path, oracle: Oracle) -> None:
    path = oracle.create(tmp_path, "db.t", [("id", "INT")], options={"row-tracking.enabled": "true"})

    def append(*ids: int) -> None:
        with penstock.open_table(str(path)).writer() as writer:
            writer.write(pa.table({"id": pa.array(ids, pa.int32())}))
            writer.commit()

    append(10, 11)
    oracle.write(path, [("+I", 20)])
    append(30)
    found = oracle.system(path, "row_tracking")
    names = list(found.columns)
    ids = {row[names.index("id")]: row[names.index("_ROW_ID")] for row in found.rows}
    numbers = {row[names.index("id")]: row[names.index("_SEQUENCE_NUMBER")] for row in found.rows}
    assert ids == {10: 0, 11: 1, 20: 2, 30: 3}
    assert numbers == {10: 1, 11: 1, 20: 2, 30: 3}
