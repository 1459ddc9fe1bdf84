"""Random rows of every type through every format and back."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.table.files.encoding import FORMATS
from penstock.table.files.errors import FormatUnknown
from penstock.table.files.reading import FileReader
from penstock.table.files.writing import FileNames, RollingWriter
from penstock.table.meta.data_file import DataFile
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import Field
from tests.golden.relations import Relation, difference
from tests.golden.rows import arrow_rows, parsed
from tests.strategies import Columns, columns, rows
from tests.unit.table.memory_store import MemoryStore


def schema_of(of: Columns, file_format: str, **options: str) -> TableSchema:
    fields = tuple(Field(place, name, parsed(kind)) for place, (name, kind) in enumerate(of.columns))
    return TableSchema(0, fields, len(fields), options={"file.format": file_format, **options})


def through(schema: TableSchema, table: pa.Table, batch_rows: int = 3) -> tuple[list[DataFile], pa.Table]:
    store = MemoryStore()
    writer = RollingWriter(store, "b", schema, FileNames("u"), clock=lambda: 0)
    for batch in table.to_batches(2):
        writer.write(batch)
    files = writer.finish()
    reader = FileReader(store, lambda file: f"b/{file.name}", lambda _: schema, schema.fields)
    batches = [batch for file in files for batch in reader.read(file, batch_rows=batch_rows)]
    return files, pa.Table.from_batches(batches, reader.schema)


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_what_is_written_is_read(file_format: str, data: st.DataObject) -> None:
    of = data.draw(columns(depth=2, keyed=False))
    if file_format == "avro" and any(f"TIMESTAMP({n})" in str(kind) for _, kind in of.columns for n in (7, 8, 9)):
        return
    drawn = data.draw(rows(of))
    table = arrow_rows(drawn, of.columns)

    _, found = through(schema_of(of, file_format), table)

    wanted = Relation(tuple(name for name, _ in of.columns), tuple(kind for _, kind in of.columns), drawn)
    assert difference(wanted, found) is None
    assert found.num_rows == len(drawn)


@pytest.mark.parametrize("file_format", FORMATS)
def test_slices_and_other_text_layouts_are_written_as_what_they_hold(file_format: str) -> None:
    of = Columns(
        (("a", "STRING"), ("b", {"type": "ARRAY", "element": "INT"}), ("c", "BYTES"), ("d", "TIMESTAMP(3)")), 0
    )
    table = pa.table(
        {
            "a": pa.array(["x", "y", None, "z"]).dictionary_encode(),
            "b": pa.array([[1], [2, None], None, []], pa.list_(pa.field("item", pa.int32()))),
            "c": pa.array([b"1", None, b"3", b"4"], pa.large_binary()),
            "d": pa.array([dt.datetime(1965, 1, 1), None, dt.datetime(2020, 1, 1), None], pa.timestamp("ms")),
        }
    ).slice(1)

    _, found = through(schema_of(of, file_format), table)

    assert found.to_pylist() == table.to_pylist()


def test_nothing_behind_a_null_row_comes_to_light_in_orc() -> None:
    row = {"type": "ROW", "fields": [{"name": "m", "type": {"type": "ROW", "fields": [{"name": "n", "type": "INT"}]}}]}
    inner = pa.StructArray.from_arrays(
        [pa.array([1, 2, None, 4], pa.int32())], ["n"], mask=pa.array([True, False, False, True])
    )
    outer = pa.StructArray.from_arrays([inner], ["m"], mask=pa.array([False, True, False, False]))
    table = pa.table({"r": outer})

    _, found = through(schema_of(Columns((("r", row),), 0), "orc"), table)

    assert found.to_pylist() == table.to_pylist()


def test_avro_refuses_timestamps_of_nanoseconds_by_column() -> None:
    of = Columns((("t", "TIMESTAMP(9)"),), 0)

    with pytest.raises(FormatUnknown, match="9 digits") as caught:
        through(schema_of(of, "avro"), pa.table({"t": pa.array([1], pa.timestamp("ns"))}))

    assert caught.value.facts["column"] == "t"


@pytest.mark.parametrize(
    ("file_format", "codec"),
    [
        *(("parquet", codec) for codec in ("zstd", "snappy", "gzip", "lz4", "brotli", "none")),
        *(("orc", codec) for codec in ("zstd", "snappy", "zlib", "lz4", "none")),
        *(("avro", codec) for codec in ("zstd", "snappy", "deflate", "bzip2", "xz", "none")),
    ],
)
def test_every_codec_is_written_and_read(file_format: str, codec: str) -> None:
    of = Columns((("i", "BIGINT"), ("s", "STRING"), ("t", "TIMESTAMP(6)")), 0)
    moments = pa.array(range(-10_000_000_000, 10_000_000_000, 10_000_000), pa.timestamp("us"))
    table = pa.table({"i": range(2_000), "s": [f"text {n % 10}" for n in range(2_000)], "t": moments})

    _, found = through(schema_of(of, file_format, **{"file.compression": codec}), table, batch_rows=300)

    assert found.cast(table.schema).equals(table)
