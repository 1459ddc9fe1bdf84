"""Row ids that we write, as Java Paimon reads them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import penstock
from tests.interop.oracle.client import Oracle


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
