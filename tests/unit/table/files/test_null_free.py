from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.table.files import file_writer
from penstock.table.files.columns import stored_schema
from penstock.table.files.null_free import declared_fields, null_free, null_free_in
from penstock.table.handle import Table
from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.values.types import INT, ArrayType, Field
from tests.unit.table.files.test_file_writer import APPEND, KEYED, rows, written


@pytest.fixture
def groups_of_1024_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "GROUP_ROWS", 1_024)
    monkeypatch.setattr(file_writer, "COMPACTED_GROUP_ROWS", 1_024)


def required(content: bytes) -> set[str]:
    schema = pq.ParquetFile(io.BytesIO(content)).schema
    columns = (schema.column(place) for place in range(len(schema)))
    return {column.name for column in columns if column.max_definition_level == 0}


def with_null(table: pa.Table, column: str, row: int) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = None
    return table.set_column(table.schema.get_field_index(column), column, pa.array(values, pa.string()))


def test_a_file_of_one_group_declares_columns_without_nulls_as_required() -> None:
    store, (file,) = written(with_null(rows(1000), "dt", 7))

    content = store.files[f"t/bucket-0/{file.name}"]
    assert {"id", "name", "_KEY_id"} <= required(content)
    assert "dt" not in required(content)


@pytest.mark.usefixtures("groups_of_1024_rows")
def test_a_first_group_without_nulls_proves_nothing_of_later_ones() -> None:
    store, (file,) = written(with_null(rows(5000), "name", 4999))

    content = store.files[f"t/bucket-0/{file.name}"]
    assert "name" not in required(content)
    assert pq.read_table(io.BytesIO(content)).column("name").null_count == 1


@pytest.mark.usefixtures("groups_of_1024_rows")
def test_nulls_where_none_were_promised_are_written_to_another_file() -> None:
    table = with_null(rows(5000), "name", 3000)

    store, files = written(table, without_nulls=frozenset({"name", "dt"}))

    contents = [store.files[f"t/bucket-0/{file.name}"] for file in files]
    assert [required(content) >= {"name"} for content in contents] == [True, False]
    names = [name for content in contents for name in pq.read_table(io.BytesIO(content)).column("name").to_pylist()]
    assert names == table.column("name").to_pylist()
    assert sum(file.row_count for file in files) == 5000


def test_nested_columns_keep_their_levels() -> None:
    schema = replace(APPEND, fields=(*APPEND.fields, Field(2, "numbers", ArrayType(INT))))

    declared = declared_fields(schema, frozenset({"id", "numbers"}))

    assert [field.type.nullable for field in declared] == [False, True, True]


def test_batches_are_free_of_nulls_together() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    first = pa.record_batch([pa.array([1]), pa.array([1])], schema=schema)
    second = pa.record_batch([pa.array([1]), pa.array([None], pa.int64())], schema=schema)

    assert null_free([first]) == {"a", "b"}
    assert null_free([first, second]) == {"a"}
    assert null_free([]) == frozenset()


def described(*nulls: int | None, **how: object) -> DataFile:
    _, (file,) = written(rows(10))
    return replace(file, value_stats=ColumnStats(null_counts=nulls), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "proven"),
    [
        (described(0, 3, 0), {"id", "dt"}),
        (described(0, None, 0), {"id", "dt"}),
        (described(), set()),
        (described(0, 0, 0, schema_id=2), set()),
        (described(0, value_stats_cols=("name",)), {"name"}),
        (described(0, 0, 0, write_cols=("id",)), set()),
    ],
)
def test_statistics_prove_that_files_have_no_nulls(file: DataFile, proven: set[str]) -> None:
    assert null_free_in([file, described(0, 0, 0)], KEYED) == proven


def table_of(folder: Path, **options: str) -> Table:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("d")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("full", pa.int32()), ("some", pa.int32())])
    return catalog.create_table("d.t", schema, primary_keys=["id"], options={"bucket": "1", **options})


def write(table: Table, first: int) -> None:
    count = 5000
    numbers = np.arange(first, first + count)
    full = pa.array(numbers.astype(np.int32))
    some = pa.array(numbers.astype(np.int32), mask=numbers % 5 == 4)
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array(numbers), "full": full, "some": some}))
        writer.commit()


def declared_in(table: Table) -> list[set[str]]:
    paths = table.system("files")["file_path"].to_pylist()
    return [required(Path(path).read_bytes()) & {"full", "some"} for path in paths]


@pytest.mark.usefixtures("groups_of_1024_rows")
def test_what_a_buffer_and_a_compaction_know_of_all_rows_is_declared(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"write-only": "true"})
    write(table, 0)
    write(table, 2000)

    assert declared_in(table) == [{"full"}, {"full"}]

    table.compact()

    assert declared_in(table) == [{"full"}]
    rows = table.scan().to_arrow()
    assert (len(rows), rows.column("full").null_count, rows.column("some").null_count) == (7000, 0, 1400)


@pytest.mark.usefixtures("groups_of_1024_rows")
def test_rows_made_by_an_engine_may_have_nulls(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"write-only": "true", "merge-engine": "partial-update"})
    write(table, 0)
    write(table, 2000)

    table.compact()

    assert declared_in(table) == [set()]


def test_files_with_other_columns_without_nulls_share_their_fields() -> None:
    first, other = declared_fields(KEYED, frozenset({"name"})), declared_fields(KEYED, frozenset({"name", "dt"}))

    assert [a is b for a, b in zip(first, other, strict=True)] == [True, True, True, True, True, False]
    name = [stored_schema(fields, "parquet").field("name") for fields in (first, other)]
    assert [field.nullable for field in name] == [False, False]
