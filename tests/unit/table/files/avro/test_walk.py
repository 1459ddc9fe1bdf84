"""Random records in blocks of random sizes, decoded and encoded by columns, beside fastavro record by record."""

from __future__ import annotations

import io
from collections.abc import Sequence
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.table.files.avro import decode
from penstock.table.files.avro.decode import Block, can_decode, decoded
from penstock.table.files.avro.encode import encoded_blocks
from penstock.table.files.avro.reader import from_avro
from penstock.table.files.avro.schema import record_schema, without_logical_types
from penstock.table.values.types import AtomicType, DataType, Field, RowType, parse_type

ATOMS = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "STRING", "BYTES"),
    *("CHAR(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "VARIANT"),
    *("DECIMAL(1, 0)", "DECIMAL(18, 2)", "DECIMAL(19, 0)", "DECIMAL(38, 10)"),
)
LIMITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "DATE": 31, "BIGINT": 63}


def random_type(random: Random, depth: int) -> Any:
    if depth and random.random() < 0.2:
        members = [
            {"id": 100 + i, "name": f"m{i}", "type": random_type(random, depth - 1)}
            for i in range(random.randint(1, 3))
        ]
        return {"type": random.choice(["ROW", "ROW NOT NULL"]), "fields": members}
    return random.choice(ATOMS) + random.choice(["", "", " NOT NULL"])


def random_value(random: Random, type_: DataType) -> Any:
    """Return a value as fastavro writes it: numbers, bytes of decimals, dicts."""
    if type_.nullable and random.random() < 0.25:
        return None
    if isinstance(type_, RowType):
        return {field.name: random_value(random, field.type) for field in type_.fields}
    assert isinstance(type_, AtomicType)
    sized = random.choice([0, 1, 5, 63, 64, 65]) if random.random() < 0.99 else random.choice([8191, 8192, 70_000])
    match type_.root:
        case "BOOLEAN":
            return random.random() < 0.5
        case "FLOAT" | "DOUBLE":
            return float(np.float32(random.choice([0.0, -1.5, 1e30, random.random()])))
        case "BINARY" | "VARBINARY":
            return random.randbytes(sized)
        case "CHAR" | "VARCHAR":
            return "".join(random.choices("aé商\x00\x02", k=sized))
        case "VARIANT":
            return {"value": random.randbytes(sized), "metadata": random.randbytes(3)}
        case "DECIMAL":
            number = random.randrange(-(10**type_.precision) + 1, 10**type_.precision) >> random.randrange(128)
            return number.to_bytes((number.bit_length() + 8) // 8 + random.choice([0, 0, 1]), "big", signed=True)
        case "TIME":
            return random.randrange(86_400_000)
        case "TIMESTAMP":
            number = random.randrange(-(1 << 40), 1 << 40) >> random.randrange(40)
            return number * 1000 if type_.precision == 0 else number
        case "TIMESTAMP_LTZ":
            return random.randrange(-(1 << 50), 1 << 50) >> random.randrange(50)
    bits = LIMITS[type_.root]
    return random.randrange(-(1 << bits), 1 << bits) >> random.randrange(bits)


def block_of(records: Sequence[Any], schema: Any) -> Block:
    out = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(out, schema, record)
    return len(records), out.getvalue()


def one_by_one(blocks: Sequence[Block], schema: Any, field: Field) -> pa.Array:
    records: list[Any] = []
    for count, data in blocks:
        stream = io.BytesIO(data)
        records += [fastavro.schemaless_reader(stream, schema, None) for _ in range(count)]
    return from_avro([record[field.name] for record in records], field.type)


@pytest.mark.parametrize("seed", range(60))
def test_columns_equal_records_read_one_by_one(seed: int) -> None:
    random = Random(seed)
    fields = [Field(i, f"c{i}", parse_type(random_type(random, 2))) for i in range(random.randint(1, 9))]
    schema = fastavro.parse_schema(without_logical_types(record_schema(fields)))
    most = random.choice([1, 3, 40])
    blocks = [
        block_of([{field.name: random_value(random, field.type) for field in fields} for _ in range(count)], schema)
        for count in (random.randint(1, most) for _ in range(random.choice([1, 5, 12, 30])))
    ]
    wanted = random.sample(fields, random.randint(1, len(fields)))
    found = decoded(blocks, schema, wanted)
    for field, column in zip(wanted, found, strict=True):
        column.validate(full=True)
        assert column.equals(one_by_one(blocks, schema, field)), field
    written = fastavro.parse_schema(without_logical_types(record_schema(wanted)))
    again = list(encoded_blocks(found, wanted))
    for field, column in zip(wanted, found, strict=True):
        assert one_by_one(again, written, field).equals(column), field


@pytest.mark.parametrize(
    "type_", ["BIGINT", "BIGINT NOT NULL", "STRING", "DECIMAL(18, 0)", "DECIMAL(38, 0)", "BOOLEAN"]
)
def test_records_of_a_single_value_do_not_overwrite_each_other(type_: str) -> None:
    random, field = Random(type_), Field(0, "c", parse_type(type_))
    schema = fastavro.parse_schema(without_logical_types(record_schema([field])))
    block = block_of([{"c": random_value(random, field.type)} for _ in range(3000)], schema)
    column = one_by_one([block], schema, field)
    assert one_by_one(list(encoded_blocks([column], [field])), schema, field).equals(column)


@pytest.mark.parametrize("least", [0, 1_000_000])
def test_few_blocks_and_many_yield_the_same(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(least)
    fields = [Field(i, f"c{i}", parse_type(name)) for i, name in enumerate(ATOMS) if name != "VARIANT"]
    schema = fastavro.parse_schema(without_logical_types(record_schema(fields)))
    rows = [{field.name: random_value(random, field.type) for field in fields} for _ in range(200)]
    blocks = [block_of(rows[first : first + 7], schema) for first in range(0, 200, 7)]
    monkeypatch.setattr(decode, "_LEAST_BLOCKS", least)
    assert can_decode(schema, blocks)
    for field, column in zip(fields, decoded(blocks, schema, fields), strict=True):
        assert column.equals(one_by_one(blocks, schema, field)), field


def test_nested_texts_in_few_blocks_are_left_to_fastavro() -> None:
    row = {"type": "ROW", "fields": [{"id": 8, "name": "x", "type": "STRING"}]}
    schema = without_logical_types(record_schema([Field(0, "c", parse_type(row))]))
    assert not can_decode(schema, [(100, b"")] * 5)
    assert can_decode(schema, [(100, b"")] * 50)


DAMAGED = [Field(0, "a", parse_type("BIGINT")), Field(1, "b", parse_type("STRING")), Field(2, "c", parse_type("INT"))]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x02\x04\x02\x02a\x02\x04", 2),  # one record, two counted
        (b"\x02\x04\x02\x02a\x02\x04", 1 << 60),
        (b"\x04\x04\x02\x02a\x02\x04", 1),  # a branch that the union does not have
        (b"\x02\x04\x02\x01a\x02\x04", 1),  # a text of negative length
        (b"\x02\x04\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x02\x04", 1),
        (b"\x02\x04\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x02\x04", 1),  # a text that is longer than memory
        (b"\x02" + b"\xff" * 12 + b"\x01\x02\x02a\x02\x04", 1),  # a number of 13 bytes
        (b"\x02\x04\x02\x02a\x02\x04\x00", 1),
        (b"\x02\x04\x02\x02a\x02\x84", 1),  # a number that the block ends in
    ],
)
@pytest.mark.parametrize("beside", [0, 30])
def test_a_damaged_block_is_refused(data: bytes, count: int, beside: int) -> None:
    schema = without_logical_types(record_schema(DAMAGED))
    whole = (1, b"\x02\x04\x02\x02a\x02\x04")
    assert decoded([whole] * (beside + 1), schema, DAMAGED)[1].to_pylist() == ["a"] * (beside + 1)
    for blocks in ([whole] * beside + [(count, data)], [(count, data)] + [whole] * beside):
        with pytest.raises((ValueError, IndexError, OverflowError)):
            decoded(blocks, schema, DAMAGED)
