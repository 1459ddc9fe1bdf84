"""Rows of files that Java wrote, written again by ours: what the manifest says must be the same."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.table.files.file_writer import FileFolder, FileNames, RollingWriter
from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.values.binary_row import decode_row
from penstock.table.values.internal import from_internal
from penstock.table.values.types import AtomicType, Field, type_json
from tests.golden.cases import Case
from tests.golden.relations import canonical_of, encode
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.table.files.golden_rows import GoldenFiles

CASES = [
    "types_append_parquet",
    "types_pk_parquet",
    "codecs_parquet",
    "merge_agg_all",
    "stats_none",
    "stats_full",
    "stats_truncate",
    "stats_per_column",
    "stats_counts_sparse",
    "dv_pk",
    "layout_thin_mode",
]


@pytest.mark.parametrize("name", CASES)
def test_a_file_written_again_is_described_as_java_described_it(name: str) -> None:
    golden = GoldenFiles(Case(name))
    for file, description in golden.live_files():
        again = written_again(golden, file, description)

        assert described(golden, again, description) == expected(golden, description)


def written_again(golden: GoldenFiles, file: DataFile, expected: dict[str, Any]) -> DataFile:
    writer = RollingWriter(
        FileFolder(MemoryStore(), "bucket-0", FileNames("u"), lambda: 0),
        golden.schema,
        level=file.level,
        first_sequence=expected["min_seq"],
    )
    for batch in golden.reader().read(file):
        writer.write(batch)
    (again,) = writer.finish()
    return again


def described(golden: GoldenFiles, file: DataFile, description: dict[str, Any]) -> dict[str, Any]:
    keys = golden.schema.select(golden.schema.trimmed_primary_keys)
    columns = golden.schema.fields if file.value_stats_cols is None else golden.schema.select(file.value_stats_cols)
    found = {
        "rows": file.row_count,
        "deletes": file.delete_row_count,
        "min_seq": file.min_sequence,
        "max_seq": file.max_sequence,
        "value_stats_cols": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "value_stats": {name: tuple(stats) for name, stats in decoded(file.value_stats, columns).items()},
    }
    if keys:
        found["key_stats"] = {name: tuple(stats) for name, stats in decoded(file.key_stats, keys).items()}
        types = [key.type for key in keys]
        for end, row in (("min_key", file.min_key), ("max_key", file.max_key)):
            pairs = zip(decode_row(row, types), keys, strict=True)
            found[end] = [encoded(value, key) for value, key in pairs]
    return found


def decoded(stats: ColumnStats, columns: tuple[Field, ...]) -> dict[str, list[Any]]:
    types = [column.type for column in columns]
    rows = (decode_row(stats.min_values, types), decode_row(stats.max_values, types), stats.null_counts)
    return {
        column.name: [encoded(low, column), encoded(high, column), nulls]
        for column, low, high, nulls in zip(columns, *rows, strict=True)
    }


def encoded(value: object, column: Field) -> Any:
    if value is None or not isinstance(column.type, AtomicType):
        return value
    kind = type_json(column.type)
    assert isinstance(kind, str)
    return canonical_of(kind)(encode(from_internal([value], column.type), kind)[0])


def expected(golden: GoldenFiles, description: dict[str, Any]) -> dict[str, Any]:
    """Java's words, floats as their bits."""
    names = ["rows", "deletes", "min_seq", "max_seq", "value_stats_cols", "value_stats"]
    wanted: dict[str, Any] = {name: description.get(name) for name in names}
    kinds = {column.name: type_json(column.type) for column in golden.schema.fields}
    for part in ("value_stats", "key_stats"):
        if part in description:
            wanted[part] = {name: canonical_stats(stats, kinds[name]) for name, stats in description[part].items()}
    for end in ("min_key", "max_key"):
        if end in description:
            wanted[end] = description[end]
    return wanted


def canonical_stats(stats: list[Any], kind: Any) -> tuple[Any, Any, Any]:
    canonical = canonical_of(kind) if isinstance(kind, str) else lambda value: value
    return canonical(stats[0]), canonical(stats[1]), stats[2]
