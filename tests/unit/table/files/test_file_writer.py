from __future__ import annotations

import gc
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import ConfigError
from penstock.storage import local
from penstock.storage.local import LocalStorage
from penstock.table.errors import FormatUnknown, NullRefused
from penstock.table.files.encoding import encoding_of
from penstock.table.files.file_reader import FileReader
from penstock.table.files.file_writer import FileFolder, FileNames, RollingWriter
from penstock.table.files.value_bounds import greatest_prefix
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.binary_row import decode_row, encode_row
from penstock.table.values.types import BIGINT, INT, STRING, ArrayType, Field, MapType, RowType, parse_atomic
from tests.unit.storage.memory_store import MemoryStore

ID = Field(0, "id", parse_atomic("BIGINT NOT NULL"))
KEYED = TableSchema(3, (ID, Field(1, "name", STRING), Field(2, "dt", STRING)), 2, ("dt",), ("dt", "id"))
APPEND = TableSchema(1, (Field(0, "id", BIGINT), Field(1, "name", STRING)), 1)


def rows(count: int, first: int = 0) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array(ids + 100),
            "_VALUE_KIND": pa.array((ids % 4).astype(np.int8)),
            "id": pa.array(ids),
            "name": pa.array([f"name {id_ * 7919 % 99991}" for id_ in ids]),
            "dt": pa.array(["2026-01-01"] * count),
        }
    )


def writer(store: MemoryStore, schema: TableSchema = KEYED, **how: object) -> RollingWriter:
    folder = FileFolder(store, "t/bucket-0", FileNames("uuid"), lambda: 1_700_000_000_000)
    return RollingWriter(folder, schema, **how)  # type: ignore[arg-type]


def written(rows: pa.Table, schema: TableSchema = KEYED, **how: object) -> tuple[MemoryStore, list[DataFile]]:
    store = MemoryStore()
    opened = writer(store, schema, **how)
    for batch in rows.to_batches(10_000):
        opened.write(batch)
    return store, opened.finish()


def test_a_file_is_described_by_its_rows() -> None:
    store, (file,) = written(rows(1000), level=2, source=FileSource.COMPACT)

    assert (file.name, file.level, file.schema_id, file.source) == ("data-uuid-0.parquet", 2, 3, 1)
    assert file.size == len(store.files["t/bucket-0/data-uuid-0.parquet"])
    assert (file.row_count, file.delete_row_count, file.min_sequence, file.max_sequence) == (1000, 500, 100, 1099)
    assert (file.min_key, file.max_key) == (encode_row([0], [ID.type]), encode_row([999], [ID.type]))
    assert file.creation_millis == 1_700_000_000_000
    assert file.value_stats_cols is None


def test_a_file_has_the_columns_and_ids_of_the_format() -> None:
    nulls = pa.nulls(10, pa.string())
    store, _ = written(rows(10).set_column(3, "name", nulls).set_column(4, "dt", nulls))
    schema = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"])).schema_arrow

    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}
    assert list(ids.items()) == [
        ("_KEY_id", 1073741823),
        ("_SEQUENCE_NUMBER", 2147483646),
        ("_VALUE_KIND", 2147483645),
        ("id", 0),
        ("name", 1),
        ("dt", 2),
    ]
    assert [field.name for field in schema if field.nullable] == ["name", "dt"]


def test_thin_files_have_no_key_columns() -> None:
    store, _ = written(rows(10), replace(KEYED, options={"data-file.thin-mode": "true"}))

    names = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"])).schema_arrow.names
    assert names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "name", "dt"]


def test_files_roll_at_the_target_size_and_lose_nothing() -> None:
    store, files = written(rows(90_000), replace(KEYED, options={"target-file-size": "100 kb"}))

    assert len(files) > 2
    assert all(100 << 10 <= file.size < 160 << 10 for file in files[:-1])
    assert [file.name for file in files] == [f"data-uuid-{number}.parquet" for number in range(len(files))]
    reader = FileReader(store, lambda file: f"t/bucket-0/{file.name}", lambda _: KEYED, KEYED.fields)
    ids = [batch.column("id") for file in files for batch in reader.read(file)]
    assert pa.chunked_array(ids).to_pylist() == list(range(90_000))
    ends = [(decode_row(file.min_key, [ID.type]), decode_row(file.max_key, [ID.type])) for file in files]
    assert all(ends[i][1][0] + 1 == ends[i + 1][0][0] for i in range(len(ends) - 1))  # type: ignore[operator]


def test_a_short_last_row_group_is_avoided() -> None:
    store, (file,) = written(rows(140_000))
    metadata = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"])).metadata

    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [140_000]
    assert file.row_count == 140_000


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_writer_of_long_rows_keeps_one_row_group_in_memory(file_format: str) -> None:
    """A row group had a thousand rows or more, however long they were."""
    before, kept = pa.total_allocated_bytes(), []
    opened = writer(MemoryStore(), replace(APPEND, options={"file.format": file_format}))
    for number in range(50):
        opened.write(pa.record_batch({"id": [number], "name": [f"{number} " + "x" * (2 << 20)]}))
        kept.append(pa.total_allocated_bytes() - before)
    (file,) = opened.finish()
    assert file.row_count == 50
    assert max(kept) < 80 << 20


def test_a_writer_without_rows_creates_no_file() -> None:
    store, files = written(rows(0))

    assert (store.files, files) == ({}, [])


def test_rows_of_append_tables_are_numbered_across_files() -> None:
    schema = replace(APPEND, options={"target-file-size": "50 kb"})
    _, files = written(rows(30_000).select(["id", "name"]), schema, first_sequence=500)

    assert files[0].min_sequence == 500
    assert all(files[i].max_sequence + 1 == files[i + 1].min_sequence for i in range(len(files) - 1))
    assert files[-1].max_sequence == 500 + 30_000 - 1
    assert {(file.min_key, file.delete_row_count) for file in files} == {(bytes(12), 0)}


def test_changelog_files_share_the_counter_and_have_separate_names_and_codecs() -> None:
    schema = replace(
        KEYED,
        options={
            "changelog-file.prefix": "chg-",
            "changelog-file.compression": "snappy",
            "file.suffix.include.compression": "true",
        },
    )
    store, names = MemoryStore(), FileNames("u")
    made = []
    for changelog in (False, True):
        opened = RollingWriter(FileFolder(store, "b", names, lambda: 0), schema, changelog=changelog)
        opened.write(rows(10))
        made += opened.finish()

    assert [file.name for file in made] == ["data-u-0.zstd.parquet", "chg-u-1.snappy.parquet"]
    assert [file.format for file in made] == ["parquet", "parquet"]
    footer = pq.ParquetFile(io.BytesIO(store.files["b/chg-u-1.snappy.parquet"])).metadata
    assert footer.row_group(0).column(0).compression == "SNAPPY"


def test_abort_removes_complete_and_incomplete_files_and_can_be_repeated() -> None:
    store = MemoryStore()
    opened = writer(store, replace(KEYED, options={"target-file-size": "100 kb"}))
    opened.write(rows(60_000))
    assert store.files

    opened.abort()
    opened.abort()

    assert store.files == {}


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_file_that_is_removed_prints_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """Arrow's writer, collected without being closed, printed that its stream is closed."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    monkeypatch.setattr(local, "_OUTPUT_BUFFER", 16)  # so that the end of a file does not fit into the buffer
    folder = f"{tmp_path}/bucket-0"
    storage = LocalStorage()
    made = FileFolder(storage, folder, FileNames("uuid"), lambda: 0)
    opened = RollingWriter(made, replace(KEYED, options={"file.format": format_, "target-file-size": "1 mb"}))
    opened.write(rows(30_000))
    assert list(Path(folder).glob("*"))
    opened.abort()
    del opened
    gc.collect()  # collects what the writer has left
    assert printed == []
    assert not list(Path(folder).glob("*"))


def test_the_same_rows_clock_and_names_produce_the_same_bytes() -> None:
    assert written(rows(20_000))[0].files == written(rows(20_000))[0].files


def test_a_null_in_a_not_null_column_is_refused_by_name() -> None:
    with_null = rows(3).set_column(2, "id", pa.array([1, None, 3]))

    with pytest.raises(NullRefused, match="id is NOT NULL"):
        written(with_null)


def test_dictionaries_are_for_columns_of_few_values_in_files_of_many_rows() -> None:
    def with_dictionary(count: int) -> list[str]:
        store, _ = written(rows(count))
        group = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"])).metadata.row_group(0)
        columns = [group.column(place) for place in range(group.num_columns)]
        return [column.path_in_schema for column in columns if column.has_dictionary_page]

    assert with_dictionary(20_000) == ["_VALUE_KIND", "dt"]
    assert with_dictionary(1_000) == []


@pytest.mark.slow
def test_deltas_that_a_codec_does_not_shrink_are_stored_uncompressed() -> None:
    draw = np.random.default_rng(1)
    inner = Field(5, "tags", ArrayType(INT))
    fields = (
        Field(0, "id", BIGINT),
        Field(1, "random", BIGINT),
        Field(2, "text", STRING),
        Field(3, "nested", RowType((inner,))),
        Field(4, "counts", MapType(STRING, BIGINT)),
    )
    schema = replace(APPEND, fields=fields, highest_field_id=5)
    count = 20_000
    data = pa.table(
        {
            "id": pa.array(np.arange(count)),
            "random": pa.array(draw.integers(0, 1 << 60, count)),
            "text": [f"text {number}" for number in range(count)],
            "nested": [{"tags": [number, None]} for number in range(count)],
            "counts": [[("a", number)] for number in range(count)],
        },
        schema=arrow_schema(fields),
    )
    store, _ = written(data, schema)
    file = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"]))
    group = file.metadata.row_group(0)
    codecs = {group.column(at).path_in_schema: group.column(at).compression for at in range(group.num_columns)}

    assert codecs == {
        "id": "ZSTD",
        "random": "UNCOMPRESSED",
        "text": "ZSTD",
        "nested.tags.list.element": "ZSTD",
        "counts.key_value.key": "ZSTD",
        "counts.key_value.value": "ZSTD",
    }
    assert file.read().column("random").equals(data.column("random"))


def test_small_columns_are_stored_uncompressed() -> None:
    """The set-up of a codec costs more time than the few bytes that it saves."""
    fields = (
        Field(0, "id", BIGINT),
        Field(1, "text", STRING),
        Field(2, "nested", RowType((Field(3, "tags", ArrayType(INT)),))),
    )
    schema = replace(APPEND, fields=fields, highest_field_id=3)

    def codecs(rows: int, text: str) -> dict[str, str]:
        content = {"id": range(rows), "text": [text] * rows, "nested": [{"tags": [1]}] * rows}
        store, _ = written(pa.table(content, schema=arrow_schema(fields)), schema)
        file = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"]))
        assert file.read().to_pydict() == {**content, "id": list(range(rows))}
        group = file.metadata.row_group(0)
        return {group.column(at).path_in_schema: group.column(at).compression for at in range(group.num_columns)}

    names = ("id", "text", "nested.tags.list.element")
    assert codecs(3, "a") == dict.fromkeys(names, "UNCOMPRESSED")
    assert codecs(3, "a" * 300) == {**dict.fromkeys(names, "UNCOMPRESSED"), "text": "ZSTD"}
    assert codecs(1_100, "") == dict.fromkeys(names, "ZSTD")


@pytest.mark.slow
def test_long_rows_make_small_row_groups() -> None:
    long = pa.table({"id": pa.array(range(2000)), "name": pa.array(["x" * 40_000] * 2000)})
    store, (file,) = written(long, APPEND)
    metadata = pq.ParquetFile(io.BytesIO(store.files["t/bucket-0/data-uuid-0.parquet"])).metadata

    assert metadata.row_group(0).num_rows < 1800
    assert file.row_count == 2000


def test_texts_too_long_for_a_footer_have_no_bounds() -> None:
    schema = replace(APPEND, options={"metadata.stats-mode": "full"})
    _, (file,) = written(pa.table({"id": [1, 2], "name": ["a", "x" * 5000]}), schema)

    types = [field.type for field in APPEND.fields]
    assert decode_row(file.value_stats.min_values, types) == (1, None)
    assert file.value_stats.null_counts == (0, 0)


def test_nested_columns_have_no_statistics_in_parquet() -> None:
    schema = TableSchema(0, (Field(0, "id", BIGINT), Field(1, "list", ArrayType(INT))), 1)
    _, (file,) = written(pa.table({"id": [1], "list": pa.array([[1]], pa.list_(pa.int32()))}), schema)

    assert file.value_stats_cols == ("id",)


@pytest.mark.parametrize(
    ("text", "length", "greatest"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("文字x", 2, "文存"),
        ("a\U0010ffffx", 2, "b"),
        ("a\ud7ffx", 2, "a\ue000"),
        ("\U0010ffff" * 3, 2, None),
    ],
)
def test_a_cut_maximum_is_raised_by_one_character(text: str, length: int, greatest: str | None) -> None:
    assert greatest_prefix(text, length) == greatest


def test_formats_and_codecs_may_differ_by_level() -> None:
    texts = {"file.format.per.level": "0:avro,5:parquet", "file.compression.per.level": "0:snappy,5:zstd"}
    options = TableOptions(texts)

    assert (encoding_of(options, 0).format, encoding_of(options, 0).codec) == (
        "avro",
        "snappy",
    )
    assert (encoding_of(options, 5).format, encoding_of(options, 3).format) == (
        "parquet",
        "parquet",
    )


def test_unknown_formats_codecs_and_modes_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(FormatUnknown, match="parket") as caught:
        encoding_of(TableOptions({"file.format": "parket"}))
    assert caught.value.hint is not None
    assert "parquet" in caught.value.hint
    with pytest.raises(FormatUnknown, match="lzo"):
        encoding_of(TableOptions({"file.compression": "lzo"}))
    with pytest.raises(ConfigError, match="truncate"):
        written(rows(1), replace(KEYED, options={"metadata.stats-mode": "truncate"}))


MEASURED = TableSchema(1, (Field(0, "id", BIGINT), Field(1, "v", parse_atomic("DOUBLE"))), 1)


def measured(values: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(values)), "v": values})


def test_floats_that_stop_to_be_random_end_a_file_once() -> None:
    count, random = 40_000, np.random.default_rng(1)
    parts = [random.random(count), np.zeros(count), random.random(count), np.zeros(count)]
    store, files = written(measured(np.concatenate(parts)), MEASURED, level=5)
    stored = pa.concat_tables(
        pq.read_table(io.BytesIO(store.files[f"t/bucket-0/{file.name}"]), columns=["v"]) for file in files
    )
    assert stored["v"].to_numpy().tolist() == np.concatenate(parts).tolist()
    assert len(files) == 2
    # Random doubles become a sixteenth smaller, zeros nearly nothing; a group of rows is where a change is seen.
    assert sum(file.size for file in files) < 1.12 * 8 * (2 * count)


def test_random_floats_are_in_one_file() -> None:
    _, files = written(measured(np.random.default_rng(1).random(150_000)), MEASURED, level=5)
    assert len(files) == 1
