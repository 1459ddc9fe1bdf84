"""Values that are NOT NULL are written below nulls, however the arrays in memory represent these."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.table.files.encoding import Encoding
from penstock.table.files.parquet.writer import ParquetWriter
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import STRING, ArrayType, AtomicType, DataType, Field, MapType, RowType

INT, TEXT = AtomicType("INT", nullable=False), replace(STRING, nullable=False)
FLAG, NUMBER = AtomicType("BOOLEAN", nullable=False), AtomicType("DECIMAL", precision=20, scale=2, nullable=False)


def struct(*types: DataType, nullable: bool = True) -> RowType:
    return RowType(tuple(Field(10 + at, f"m{at}", type_) for at, type_ in enumerate(types)), nullable=nullable)


TYPES = {
    "members": struct(INT, TEXT, FLAG, NUMBER, AtomicType("INT")),
    "variant": AtomicType("VARIANT"),
    "struct of structs": struct(struct(INT, STRING, nullable=False), struct(TEXT)),
    "lists": struct(
        ArrayType(INT, nullable=False), ArrayType(struct(INT)), MapType(TEXT, struct(FLAG), nullable=False)
    ),
    "list of structs": ArrayType(struct(TEXT, struct(INT, nullable=False))),
    "map of structs": MapType(INT, struct(NUMBER)),
}


def value(draw: random.Random, type_: pa.DataType, nullable: bool) -> object:
    if nullable and draw.random() < 0.4:
        return None
    if pa.types.is_struct(type_):
        return {field.name: value(draw, field.type, field.nullable) for field in type_}
    if pa.types.is_map(type_):
        return [
            (f"{at}" if pa.types.is_string(type_.key_type) else at, value(draw, type_.item_type, True))
            for at in range(draw.randrange(3))
        ]
    if pa.types.is_list(type_):
        return [value(draw, type_.value_type, type_.value_field.nullable) for _ in range(draw.randrange(3))]
    plain = {pa.string(): "x" * draw.randrange(9), pa.bool_(): draw.random() < 0.5, pa.binary(): draw.randbytes(3)}
    return plain.get(type_, draw.randrange(99))


@pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("rows", ["mixed", "slice", "nulls", "missing"])
def test_values_below_nulls_are_written(type_: DataType, rows: str) -> None:
    arrow, draw = to_arrow(type_), random.Random(7)
    column = (
        pa.nulls(5, arrow)
        if rows == "missing"
        else pa.array([None if rows == "nulls" else value(draw, arrow, True) for _ in range(40)], arrow)
    )
    table = pa.table({"c": column.slice(3, 20) if rows == "slice" else column})
    sink = pa.BufferOutputStream()
    writer = ParquetWriter(sink, (Field(0, "c", type_),), Encoding(), table)
    writer.write(table)
    writer.write(table)
    writer.close()
    assert pq.read_table(pa.BufferReader(sink.getvalue())).to_pylist() == table.to_pylist() * 2


def test_a_null_that_a_struct_shows_is_refused() -> None:
    table = pa.table({"c": pa.array([{"m0": None}, None], pa.struct([("m0", pa.int32())]))})
    writer = ParquetWriter(pa.BufferOutputStream(), (Field(0, "c", struct(INT)),), Encoding(), table)
    with pytest.raises(pa.ArrowInvalid, match="non-nullable but contains nulls"):
        writer.write(table)
