from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.table.read.lazy_dataset import LazyDataset

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})


@pytest.fixture
def dataset() -> LazyDataset:
    def rows(columns: Any, where: Any) -> Any:
        found = ROWS if where is None else ROWS.filter(where)
        return iter(found.select(columns or ROWS.column_names).to_batches(max_chunksize=2))

    return LazyDataset(ROWS.schema, rows)


@pytest.mark.parametrize(
    "read",
    [
        lambda scanner: scanner.to_table(),
        lambda scanner: scanner.to_reader().read_all(),
        lambda scanner: pa.Table.from_batches(scanner.to_batches()),
        lambda scanner: pa.Table.from_batches([tagged.record_batch for tagged in scanner.scan_batches()]),
        lambda scanner: scanner.head(10),
        lambda scanner: scanner.take(pa.array([0, 1])),
    ],
)
def test_a_scanner_returns_the_columns_and_rows_that_were_requested(
    dataset: LazyDataset, read: Callable[[Any], pa.Table]
) -> None:
    scanner = dataset.scanner(columns=["b"], filter=pc.field("a") >= 2)

    assert scanner.projected_schema.names == scanner.dataset_schema.names == ["b"]
    assert read(scanner).to_pydict() == {"b": ["y", "z"]}


def test_a_scanner_counts_rows(dataset: LazyDataset) -> None:
    assert dataset.scanner().count_rows() == 3
    assert dataset.scanner(columns=["b"], filter=pc.field("a") == 2).count_rows() == 1
