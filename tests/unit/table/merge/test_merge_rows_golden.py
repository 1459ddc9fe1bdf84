"""The merge engines on the files that Java wrote: each table reads as Java reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.table.files.file_reader import FileReader
from penstock.table.merge.bounded_merge import SortedRun, merge_runs
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.sorted_runs import FileRun, sections
from penstock.table.merge.spec import MergeSpec
from penstock.table.meta.data_file import DataFile
from penstock.table.values.binary_row import encode_rows
from penstock.table.values.types import DataType
from tests.golden.cases import Case, case_names
from tests.golden.relations import difference
from tests.unit.table.files.golden_rows import GoldenFiles

CASES = [name for name in case_names() if name.startswith(("merge_", "levels_")) and not name.endswith("avro")]


def key_bytes(rows: pa.RecordBatch, row: int, keys: Sequence[str], types: Sequence[DataType]) -> bytes:
    columns = [rows.column(key).slice(row, 1) for key in keys]
    return len(keys).to_bytes(4, "big") + encode_rows(columns, types)[0]


def live_files(golden: GoldenFiles, spec: MergeSpec, reader: FileReader) -> Iterator[DataFile]:
    for file, _ in golden.live_files():
        rows = pa.Table.from_batches(reader.read(file)).combine_chunks().to_batches()[0]
        sequence = rows.column("_SEQUENCE_NUMBER").to_pylist()
        yield replace(
            file,
            min_key=key_bytes(rows, 0, spec.keys, spec.key_types()),
            max_key=key_bytes(rows, rows.num_rows - 1, spec.keys, spec.key_types()),
            min_sequence=min(sequence),
            max_sequence=max(sequence),
        )


@pytest.mark.parametrize("name", CASES)
def test_merged_golden_tables_equal_rows_of_java(name: str) -> None:
    golden = GoldenFiles(Case(name))
    spec, reader = merge_spec(golden.schema), golden.reader()
    files = list(live_files(golden, spec, reader))
    if spec.engine.oldest_wins:
        files = [file for file in files if file.level > 0]

    def read(run: FileRun) -> Iterator[pa.RecordBatch]:
        for file in run.data_files:
            yield from reader.read(file, batch_rows=3)

    tables = []
    for section in sections(files, spec.key_types()):
        runs = [SortedRun(run.level, read(run)) for run in section.runs]
        tables += merge_runs(spec, runs, drop_deletes=True)
    merged = pa.concat_tables([*tables, reader.schema.empty_table()])
    assert difference(golden.case.latest, merged.drop_columns(["_SEQUENCE_NUMBER", "_VALUE_KIND"])) is None
