"""Rows of sources without messages, as the messages that their dead letters are kept as."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats import decode
from penstock.formats.change import BadRecord, ChangeBatch, Messages, SourceField, SourceSchema
from penstock.ingest.postgres.config import PostgresConfig
from penstock.ingest.postgres.connector import PostgresConnector
from penstock.pipelines.tasks.bad_record_collector import with_message
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

COLUMNS: dict[str, tuple[str, pa.DataType, object]] = {
    "id": ("int4", pa.int32(), 7),
    "whole": ("bool", pa.bool_(), True),
    "price": ("numeric(12,2)", pa.decimal128(12, 2), Decimal("1.50")),
    "raw": ("bytea", pa.binary(), b"\x00\xff"),
    "at": ("timestamptz", pa.timestamp("us", "UTC"), dt.datetime(2024, 5, 1, tzinfo=dt.UTC)),
    "late": ("timestamp", pa.timestamp("us"), 1 << 60),  # in the year 38504, which Python cannot show
    "clock": ("time", pa.time64("us"), dt.time(1, 2, 3)),
    "day": ("date", pa.date32(), None),
    "tags": ("text[]", pa.list_(pa.string()), ["a,b", None]),
    "name": ("text", pa.string(), 'an "ä"'),
}
SCHEMA = SourceSchema(
    "postgres",
    "public",
    "t",
    tuple(SourceField(name, type_, None, name != "id") for name, (type_, _, _) in COLUMNS.items()),
    ("id",),
    "of orders",
)


def rows(types: dict[str, tuple[str, pa.DataType, object]] = COLUMNS) -> pa.RecordBatch:
    columns = [pa.array([None, value], arrow) for _, arrow, value in types.values()]
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def letter(change: ChangeBatch) -> bytes:
    return with_message(BadRecord(1, "bad-value", "no"), change, None).raw


def read(value: bytes, position: int = 5) -> ChangeBatch:
    config = PostgresConfig.model_validate(
        {"type": "postgres", "database-name": "shop", "hostname": "h", "username": "u", "slot.name": "s"}
    )
    decoded = decode(PostgresConnector().message_format(config), Messages([value], np.array([position])))
    assert not decoded.bad
    (found,) = decoded.batches
    return found


def test_row_of_postgresql_returns_with_its_types_and_values() -> None:
    change = ChangeBatch.inserts(SCHEMA, rows())
    found = read(letter(change))
    assert found.schema == SCHEMA
    assert found.rows.equals(change.rows.slice(1, 1))
    assert found.positions.tolist() == [5]


@pytest.mark.parametrize(
    ("kind", "kept"), [(INSERT, INSERT), (UPDATE_AFTER, UPDATE_AFTER), (UPDATE_BEFORE, DELETE), (DELETE, DELETE)]
)
def test_a_single_row_keeps_whether_it_is_new_or_old(kind: int, kept: int) -> None:
    change = ChangeBatch.inserts(SCHEMA, rows())
    change.kinds[:] = kind
    assert read(letter(change)).kinds.tolist() == [kept]


def update(schema: SourceSchema, rows: pa.RecordBatch) -> ChangeBatch:
    kinds, positions = np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), np.array([1, 1])
    return ChangeBatch(rows, kinds, positions, np.array([0, 1], np.int32), schema, np.array([3, 3]))


def test_update_keeps_its_old_row() -> None:
    found = read(letter(update(SCHEMA, rows())))
    assert found.rows.equals(rows())
    assert (found.kinds.tolist(), found.subs.tolist()) == ([UPDATE_BEFORE, UPDATE_AFTER], [0, 1])
    assert found.positions.tolist() == [5, 5]


def test_update_of_mysql_keeps_its_old_row() -> None:
    fields = (SourceField("id", "int"), SourceField("name", "varchar(9)"))
    mysql = SourceSchema("mysql", "shop", "t", fields, ("id",))
    old_and_new = pa.RecordBatch.from_pydict({"id": ["1", "1"], "name": [None, "b"]})
    found = read(letter(update(mysql, old_and_new)))
    assert found.rows.to_pydict() == {"id": ["1", "1"], "name": [None, "b"]}
    assert found.kinds.tolist() == [UPDATE_BEFORE, UPDATE_AFTER]


def test_row_of_a_paimon_table_keeps_nested_types() -> None:
    schema = SourceSchema("paimon", "ods", "t", (SourceField("m", "paimon:MAP<STRING, INT>"),), states_no_key=True)
    types: dict[str, tuple[str, pa.DataType, object]] = {"m": ("", pa.map_(pa.string(), pa.int32()), [("a", 1)])}
    change = ChangeBatch.inserts(schema, rows(types))
    found = read(letter(change))
    assert (found.schema, found.rows) == (schema, change.rows.slice(1, 1))


def test_letter_shows_its_values_to_people() -> None:
    shown = json.loads(letter(ChangeBatch.inserts(SCHEMA, rows())))
    assert (shown["database"], shown["table"], shown["type"]) == ("public", "t", "INSERT")
    (data,) = shown["data"]
    assert (data["id"], data["price"], data["day"], data["name"]) == ("7", "1.50", None, 'an "ä"')


def test_row_of_mysql_is_a_message_of_canal_and_both_are_read_together() -> None:
    mysql = SourceSchema("mysql", "shop", "t", (SourceField("id", "int"),), ("id",))
    old = letter(ChangeBatch.inserts(mysql, pa.RecordBatch.from_pydict({"id": ["1", "2"]})))
    assert "arrow" not in json.loads(old)
    new = letter(ChangeBatch.inserts(SCHEMA, rows()))
    decoded = decode("row-json", Messages([new, old, b"{", None], np.arange(4)))
    assert {(batch.schema.table, batch.positions.tolist()[0]) for batch in decoded.batches} == {("t", 0), ("t", 1)}
    assert [record.pos for record in decoded.bad] == [2]
    assert decoded.skipped["tombstone"] == 1


@pytest.mark.parametrize(
    ("member", "value"),
    [("arrow", "!"), ("arrow", "AAAA"), ("source", None), ("source", {"dialect": "postgres"}), ("es", 1 << 70)],
)
def test_damaged_letter_is_a_bad_record(member: str, value: object) -> None:
    message = json.loads(letter(ChangeBatch.inserts(SCHEMA, rows()))) | {member: value}
    decoded = decode("row-json", Messages([json.dumps(message).encode()], np.array([3])))
    assert [(record.pos, record.reason_class) for record in decoded.bad] == [(3, "bad-value")]
