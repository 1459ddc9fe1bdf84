"""A read holds batches, not buckets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.handle import Table
from tests.unit.table.tables import new_table

ROWS, RUNS, WIDTH = 600_000, 5, 60


def overlapping(folder: Path, options: dict[str, str]) -> Table:
    columns = [("id", "BIGINT NOT NULL"), ("note", "STRING")]
    table = new_table(folder, columns, options={"bucket": "1", "write-only": "true", **options})
    for run in range(RUNS):
        with table.writer() as writer:
            ids = np.arange(run, ROWS, 2)
            note = pa.array([f"{run}" + "x" * WIDTH]).take(pa.array(np.zeros(len(ids), np.int64)))
            writer.write(pa.table({"id": ids, "note": note}))
            writer.commit()
    return table


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_bucket_of_any_size_is_merged_in_a_few_batches(tmp_path: Path, engine: str) -> None:
    table = overlapping(tmp_path, {"merge-engine": engine})
    stored = RUNS * (ROWS // 2) * WIDTH
    begun, seen, most = pa.total_allocated_bytes(), 0, 0
    for batch in table.scan().to_batches():
        seen += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - begun)
    assert seen == ROWS
    # At most a batch of 65,536 rows of each run: what a bucket ten times as large would need as well.
    assert most < stored // 2
