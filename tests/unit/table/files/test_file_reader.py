from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import TableCorrupt
from penstock.table.errors import FormatUnknown, TimestampOutOfRange
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.encoding import Encoding
from penstock.table.files.file_reader import POSITION, FileReader, reads_columns_apart
from penstock.table.files.orc import reader as orc
from penstock.table.files.orc.reader import OrcWriter
from penstock.table.files.parquet import reader as parquet
from penstock.table.files.parquet.writer import ParquetWriter
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import (
    BIGINT,
    INT,
    STRING,
    ArrayType,
    AtomicType,
    Field,
    MapType,
    MultisetType,
    RowType,
    parse_atomic,
)
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.table.files.golden_rows import data_file

ID, NAME = Field(0, "id", BIGINT), Field(1, "name", STRING)


class Shelf:
    """A store with one Parquet file at a time, and a reader of it."""

    def __init__(self, fields: tuple[Field, ...], rows: pa.Table, *, group_rows: int = 1000) -> None:
        self.store = MemoryStore()
        self.fields = fields
        sink = self.store.open_output("f.parquet")
        writer = ParquetWriter(sink, fields, Encoding(), rows)
        for start in range(0, len(rows), group_rows):
            writer.write(rows.slice(start, group_rows))
        writer.close()
        sink.close()
        self.file = data_file("f.parquet", self.store.size("f.parquet"))

    def reader(self, *wanted: Field, system: bool = False) -> FileReader:
        schema = TableSchema(0, self.fields, 100)
        return FileReader(
            self.store,
            lambda file: file.name,
            lambda _: schema,
            wanted or self.fields,
            with_sequence=system,
            with_kind=system,
            facts={"table": "shop.orders", "snapshot": 7},
        )

    def read(self, *wanted: Field, **how: Any) -> pa.Table:
        reader = self.reader(*wanted)
        return pa.Table.from_batches(reader.read(self.file, **how), None if how.get("positions") else reader.schema)


@pytest.fixture
def numbers() -> Shelf:
    ids = list(range(3000))
    return Shelf((ID, NAME), pa.table({"id": ids, "name": [f"n{i}" for i in ids]}))


def test_columns_are_read_by_id_at_any_place_and_under_any_name(numbers: Shelf) -> None:
    table = numbers.read(Field(1, "renamed", STRING), Field(0, "id", BIGINT))

    assert table.column_names == ["renamed", "id"]
    assert table.slice(2999).to_pylist() == [{"renamed": "n2999", "id": 2999}]


def test_a_column_whose_id_the_file_lacks_is_null_even_if_its_name_exists(numbers: Shelf) -> None:
    table = numbers.read(ID, Field(9, "name", STRING))

    assert table.column("name").null_count == 3000


def test_row_groups_excluded_by_conditions_are_not_read(numbers: Shelf) -> None:
    assert numbers.read(conditions=[ColumnCondition("id", ">", (2500,))])["id"].to_pylist() == list(range(2000, 3000))
    assert len(numbers.read(conditions=[ColumnCondition("id", "=", (1500,)), ColumnCondition("name", "is null")])) == 0


def test_rows_around_those_that_conditions_leave_are_not_returned(numbers: Shelf) -> None:
    found = numbers.read(conditions=[ColumnCondition("id", "in", (1100, 1103))], positions=True, batch_rows=102)

    assert found["id"].to_pylist() == found[POSITION].to_pylist() == list(range(1100, 1104))


def test_conditions_follow_a_renamed_column(numbers: Shelf) -> None:
    assert len(numbers.read(Field(0, "key", BIGINT), conditions=[ColumnCondition("key", "<", (10,))])) == 1000


def test_positions_are_row_numbers_of_the_file_not_of_the_read_rows(numbers: Shelf) -> None:
    table = numbers.read(ID, conditions=[ColumnCondition("id", ">", (1999,))], positions=True)

    assert table.column(POSITION).to_pylist() == list(range(2000, 3000))
    assert table.schema.field(POSITION).type == pa.int64()


def test_deleted_rows_are_left_out(numbers: Shelf) -> None:
    vector = np.array([0, 1, 1500, 2999], dtype=np.uint32)

    table = numbers.read(ID, vector=vector, batch_rows=700, positions=True)

    assert table.column("id").to_pylist() == [i for i in range(3000) if i not in {0, 1, 1500, 2999}]
    assert table.column("id").to_pylist() == table.column(POSITION).to_pylist()


def test_empty_batches_are_not_returned(numbers: Shelf) -> None:
    assert list(numbers.reader().read(numbers.file, vector=np.arange(3000))) == []


def test_batches_have_at_most_the_requested_rows(numbers: Shelf) -> None:
    sizes = [len(batch) for batch in numbers.reader().read(numbers.file, batch_rows=700)]

    assert max(sizes) == 700
    assert sum(sizes) == 3000


def test_a_large_row_group_is_read_in_parts_with_the_same_rows(numbers: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numbers.read()
    monkeypatch.setattr(parquet, "_BUFFERED_ABOVE", 100)

    assert numbers.read().equals(whole)
    assert numbers.read(ID, conditions=[ColumnCondition("id", ">=", (2500,))]).num_rows == 500


def test_neighbouring_row_groups_are_read_together_up_to_a_size(numbers: Shelf) -> None:
    sizes = [len(batch) for batch in numbers.reader().read(numbers.file, batch_rows=1500)]
    gap = numbers.read(conditions=[ColumnCondition("name", "in", ("n0", "n2500"))], batch_rows=4000, positions=True)

    assert sizes == [1500, 1500]
    assert gap[POSITION].to_pylist() == gap["id"].to_pylist()


def test_rows_can_be_counted_without_reading_a_column(numbers: Shelf) -> None:
    reader = FileReader(numbers.store, lambda file: file.name, lambda _: TableSchema(0, (ID, NAME), 1), ())

    assert sum(batch.num_rows for batch in reader.read(numbers.file, vector=np.array([5]))) == 2999


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-100], "bytes, its manifest says"),
        (lambda data: b"", "bytes, its manifest says"),
        (lambda data: b"x" * len(data), "cannot be read"),
        (lambda data: data[:100] + b"\0" * 400 + data[500:], "cannot be read"),
    ],
)
def test_a_damaged_file_is_named_with_its_table_and_snapshot(numbers: Shelf, damage: Any, message: str) -> None:
    numbers.store.files["f.parquet"] = damage(numbers.store.files["f.parquet"])

    with pytest.raises(TableCorrupt, match=message) as caught:
        numbers.read()

    assert caught.value.facts.items() >= {"table": "shop.orders", "snapshot": 7, "file": "f.parquet"}.items()


def test_a_missing_file_is_named(numbers: Shelf) -> None:
    numbers.store.delete("f.parquet")

    with pytest.raises(TableCorrupt, match="missing") as caught:
        numbers.read()

    assert caught.value.facts["file"] == "f.parquet"


def test_a_file_without_row_kinds_is_refused_as_a_changelog(numbers: Shelf) -> None:
    with pytest.raises(TableCorrupt, match="no sequence numbers or row kinds"):
        list(numbers.reader(system=True).read(numbers.file))


def test_a_file_of_an_unknown_format_is_refused_by_name(numbers: Shelf) -> None:
    with pytest.raises(FormatUnknown, match="lance"):
        list(numbers.reader().read(data_file("f.lance", 1)))


# --------------------------------------------------------------------------------------------- nested columns


def test_members_are_matched_by_id_at_every_depth() -> None:
    inner = RowType((Field(3, "a", INT), Field(4, "b", STRING)))
    old = (
        Field(1, "r", inner),
        Field(2, "l", ArrayType(inner)),
        Field(5, "m", MapType(STRING, inner)),
        Field(6, "s", MultisetType(STRING)),
    )
    row = {"a": 1, "b": "x"}
    rows = pa.table(
        {
            "r": pa.array([row, None, {"a": None, "b": "y"}]),
            "l": pa.array([[row, None], None, []]),
            "m": pa.array(
                [[("k", row)], [], None], pa.map_(pa.string(), pa.struct({"a": pa.int32(), "b": pa.string()}))
            ),
            "s": pa.array([[("e", 2)], None, []], pa.map_(pa.string(), pa.int32())),
        }
    )
    rows = rows.set_column(0, "r", rows["r"].cast(pa.struct({"a": pa.int32(), "b": pa.string()})))
    rows = rows.set_column(1, "l", rows["l"].cast(pa.list_(pa.struct({"a": pa.int32(), "b": pa.string()}))))
    newer = RowType((Field(4, "bb", STRING), Field(7, "c", BIGINT), Field(3, "a", INT)))
    wanted = [Field(1, "r", newer), Field(2, "l", ArrayType(newer)), Field(5, "m", MapType(STRING, newer)), old[3]]

    table = Shelf(old, rows).read(*wanted, batch_rows=2)

    now = {"bb": "x", "c": None, "a": 1}
    assert table.column("r").to_pylist() == [now, None, {"bb": "y", "c": None, "a": None}]
    assert table.column("l").to_pylist() == [[now, None], None, []]
    assert table.column("m").to_pylist() == [[("k", now)], [], None]
    assert table.column("s").to_pylist() == [[("e", 2)], None, []]


# --------------------------------------------------------------------------------------------- INT96


def test_int96_is_converted_to_microseconds_in_every_year() -> None:
    far = [-62_135_596_800_000_000, -1, 0, 253_402_300_799_999_999, None]
    fields = (Field(0, "t6", parse_atomic("TIMESTAMP(6)")), Field(1, "t9", parse_atomic("TIMESTAMP(9)")))
    rows = pa.table({"t6": pa.array(far, pa.timestamp("us")), "t9": pa.array([1, -1, None, 0, 5], pa.timestamp("ns"))})

    table = Shelf(fields, rows).read()

    assert table.column("t6").cast(pa.int64()).to_pylist() == far
    assert table.column("t9").cast(pa.int64()).to_pylist() == [1, -1, None, 0, 5]


def int96_shelf(year_7000: bool, name: str = "t") -> Shelf:
    """A TIMESTAMP(9) column as only Java can fill it: Arrow writes INT96 of that range from microseconds."""
    fields = (Field(0, name, parse_atomic("TIMESTAMP(9)")),)
    shelf = Shelf(fields, pa.table({name: pa.array([0], pa.timestamp("ns"))}))
    moments = pa.table({name: pa.array([0, 158_751_360_000_000_000 if year_7000 else 1], pa.timestamp("us"))})
    sink = shelf.store.open_output("f.parquet")
    pq.write_table(moments, sink, use_deprecated_int96_timestamps=True)
    sink.close()
    shelf.file = data_file("f.parquet", shelf.store.size("f.parquet"))
    return shelf


@pytest.mark.parametrize("name", ["t", "a.t"])
def test_a_nanosecond_timestamp_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(TimestampOutOfRange, match="1677") as caught:
        int96_shelf(year_7000=True, name=name).read()

    assert caught.value.facts["column"] == name
    assert int96_shelf(year_7000=False, name=name).read().column(name).cast(pa.int64()).to_pylist() == [0, 1000]


@pytest.mark.parametrize("name", ["r", "a.r"])
def test_int96_within_a_row_is_converted_in_every_year(name: str) -> None:
    type_ = RowType((Field(1, "x", parse_atomic("TIMESTAMP(6)")), Field(2, "y", INT)))
    values = [{"x": datetime(7000, 8, 29), "y": 1}, {"x": None, "y": 2}, None]
    arrow = pa.struct([("x", pa.timestamp("us")), ("y", pa.int32())])
    shelf = Shelf((Field(0, name, type_),), pa.table({name: pa.array(values[1:], arrow)}))
    sink = shelf.store.open_output("f.parquet")
    pq.write_table(pa.table({name: pa.array(values, arrow)}), sink, use_deprecated_int96_timestamps=True)
    sink.close()
    shelf.file = data_file("f.parquet", shelf.store.size("f.parquet"))
    assert shelf.read().column(name).to_pylist() == values


def test_a_file_of_nanoseconds_is_read_after_the_column_became_microseconds() -> None:
    wanted = Field(0, "t", AtomicType("TIMESTAMP", precision=6))

    table = int96_shelf(year_7000=True).read(wanted)

    assert table.column("t").cast(pa.int64()).to_pylist() == [0, 158_751_360_000_000_000]


def test_a_file_of_nanoseconds_shows_all_digits_after_the_column_became_text() -> None:
    stamps = Field(0, "t", AtomicType("TIMESTAMP", precision=9))
    shelf = Shelf((stamps,), pa.table({"t": pa.array([1, None], pa.timestamp("ns"))}))

    table = shelf.read(Field(0, "t", STRING))

    assert table.column("t").to_pylist() == ["1970-01-01 00:00:00.000000001", None]


def test_a_file_of_nanoseconds_in_every_year_shows_all_digits_after_the_column_became_text() -> None:
    table = int96_shelf(year_7000=True).read(Field(0, "t", STRING))

    assert table.column("t").to_pylist() == ["1970-01-01 00:00:00.000000000", "7000-08-19 00:00:00.000000000"]


def test_local_timestamps_in_orc_files_of_java_are_read() -> None:
    path = Path(__file__).with_name("java_in_shanghai.orc")  # written by Java Paimon 1.3.1 in that zone
    store = MemoryStore({"f.orc": path.read_bytes()})
    kinds = ("INT NOT NULL", "TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE")
    names = ("id", "t", "z", "z2")
    fields = tuple(
        Field(place, name, parse_atomic(kind)) for place, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )
    schema = TableSchema(0, fields, 3)
    reader = FileReader(store, lambda file: file.name, lambda _: schema, fields)

    table = pa.Table.from_batches(reader.read(data_file("f.orc", store.size("f.orc"))))

    # China had summer time in 1940 and 1988.
    assert [[str(row[name])[:26] for name in names[1:]] for row in table.to_pylist()] == [
        ["2024-05-06 07:08:09.123000", "2024-05-06 07:08:09.123000", "1950-01-01 00:00:00.000001"],
        ["1985-07-06 07:08:09.123000", "1988-07-06 07:08:09.123000", "1988-07-06 07:08:09.123000"],
        ["1940-07-06 07:08:09.123000", "1940-07-06 07:08:09.123000", "1988-07-06 07:08:09.123000"],
    ]


@pytest.mark.slow
def test_a_large_row_group_of_long_rows_is_read_in_parts(tmp_path: Path) -> None:
    """Neither the group, compressed as it is, nor a batch of as many rows as of short ones is held."""
    rows, width = 8_000, 4_000
    noise = np.random.default_rng(1).bytes(rows * width)
    ends = np.arange(0, rows * width + 1, width, dtype=np.int32)
    notes = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(noise)])
    path, field = tmp_path / "f.parquet", Field(0, "note", parse_atomic("BYTES"))
    with path.open("wb") as sink:
        writer = ParquetWriter(sink, (field,), Encoding(), pa.table({"note": notes}))
        writer.write(pa.table({"note": notes}))
        writer.close()
    begun, most, seen = pa.total_allocated_bytes(), 0, 0
    with pa.OSFile(str(path)) as source:
        for first, batch in parquet.read(source, (field,), batch_rows=16_384):
            assert first == seen
            seen += batch.num_rows
            most = max(most, pa.total_allocated_bytes() - begun)
    assert seen == rows
    assert most < rows * width * 2 // 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("BYTES", marks=pytest.mark.slow), "STRING"])
def test_a_batch_of_long_rows_has_fewer_of_them_in_orc_too(tmp_path: Path, kind: str) -> None:
    """As the file's statistics tell: texts that are alike leave a small file."""
    rows, width, field = 40_000, 2_000, Field(0, "note", parse_atomic(kind))
    notes = pa.array([f"{number}{'x' * width}" for number in range(rows)]).cast(to_arrow(field.type))
    path = tmp_path / "f.orc"
    with path.open("wb") as sink:
        writer = OrcWriter(sink, (field,), Encoding(), pa.table({"note": notes}))
        writer.write(pa.table({"note": notes[:10_000]}))
        writer.write(pa.table({"note": notes[10_000:]}))
        writer.close()
    with pa.OSFile(str(path)) as source:
        batches = [batch for _, batch in orc.read(source, (field,), batch_rows=16_384)]
    assert max(batch.nbytes for batch in batches) < 5 << 20
    assert pa.Table.from_batches(batches).column("note").combine_chunks() == notes


def test_columns_of_avro_files_are_read_together() -> None:
    large, small = (replace(data_file("f.parquet", 1), size=size) for size in (10, 9))
    assert reads_columns_apart([large, replace(small, name="f.avro")])
    assert not reads_columns_apart([replace(large, name="f.avro"), small])
