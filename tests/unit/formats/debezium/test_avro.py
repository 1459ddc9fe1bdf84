"""debezium-avro against a registry that answers over HTTP."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError, SourceError
from penstock.formats.debezium.avro_schema import compile_schema, connect_type_of
from penstock.formats.debezium.connect import ConnectType
from penstock.formats.debezium.schema_registry import SchemaRegistry
from tests.avro import change, envelope, message, optional
from tests.servers.registry import Registry, running
from tests.unit.formats.support import placed, read, rows


@pytest.fixture
def server() -> Iterator[Registry]:
    with running() as server_:
        yield server_


def registry(server: Registry, **settings: Any) -> SchemaRegistry:
    return SchemaRegistry(server.url, sleep=lambda _seconds: None, **settings)


KEY = {"type": "record", "name": "Key", "namespace": "s.d.t", "fields": [{"name": "id", "type": "int"}]}
SIMPLE = envelope({"name": "id", "type": "int"}, {"name": "v", "type": optional("string"), "doc": "a comment"})


def test_operations_keys_and_schema(server: Registry) -> None:
    server.schemas = {1: SIMPLE, 2: KEY}
    key = message(2, KEY, {"id": 1})
    a, b = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
    decoded = read(
        "debezium-avro",
        change(1, SIMPLE, "c", None, a),
        change(1, SIMPLE, "u", a, b),
        change(1, SIMPLE, "u", None, a),
        change(1, SIMPLE, "d", None, None),
        None,
        change(1, SIMPLE, "t", None, None),
        keys=[key] * 6,
        registry=registry(server),
    )
    none = {"id": 1, "v": None}
    assert rows(decoded) == [("+I", a), ("-U", a), ("+U", b), ("+U", a), ("-D", none)]
    (batch,) = decoded.batches
    assert (batch.schema.dialect, batch.schema.database, batch.schema.table) == ("avro", "d", "t")
    assert batch.schema.primary_keys == ("id",)
    assert [(field.name, field.type, field.comment) for field in batch.schema.fields] == [
        ("id", '{"type":"int"}', None),
        ("v", '{"type":"string"}', "a comment"),
    ]
    assert set(batch.event_times.tolist()) == {9}
    assert decoded.skipped == {"tombstone": 1, "truncate": 1}
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2"], "each schema is asked for once"


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


@pytest.mark.parametrize(
    ("schema", "value", "column", "expected"),
    [
        ("boolean", True, pa.bool_(), True),
        ("long", -5, pa.int64(), -5),
        ("float", 0.5, pa.float32(), 0.5),
        ("double", 0.1, pa.float64(), 0.1),
        ("bytes", b"\xff", pa.binary(), b"\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(), b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", pa.string(), "A"),
        ({"type": "array", "items": optional("int")}, [1, None], pa.list_(pa.int64()), [1, None]),
        ({"type": "map", "values": "string"}, {"a": "b"}, pa.map_(pa.string(), pa.string()), [("a", "b")]),
        (
            {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]},
            {"m": {"k": 1}},
            pa.struct([("m", pa.map_(pa.string(), pa.int64()))]),
            {"m": [("k", 1)]},
        ),
        ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), pa.date32(), date(2024, 2, 29)),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, pa.timestamp("us"), datetime(1970, 1, 1, 0, 0, 0, 1)),
        ({"type": "long", "logicalType": "time-micros"}, 2, pa.duration("us"), timedelta(microseconds=2)),
        (DECIMAL, Decimal("-1.05"), pa.string(), "-1.05"),
        (
            {"type": "long", "connect.name": "io.debezium.time.MicroTime"},
            -1,
            pa.duration("us"),
            timedelta(microseconds=-1),
        ),
        (
            {"type": "bytes", "connect.name": "io.debezium.data.Bits", "connect.parameters": {"length": "9"}},
            b"\x01",
            pa.binary(),
            b"\x00\x01",
        ),
    ],
)
def test_values_of_avro_types(server: Registry, schema: Any, value: Any, column: pa.DataType, expected: Any) -> None:
    whole = envelope({"name": "c", "type": optional(schema)})
    server.schemas = {1: whole}
    changes = [change(1, whole, "c", None, {"c": item}) for item in (value, None)]
    decoded = read("debezium-avro", *changes, registry=registry(server))
    assert [row["c"] for _, row in rows(decoded)] == [expected, None]
    assert decoded.batches[0].rows.column(0).type == column


def test_true_column_name_is_among_the_parameters(server: Registry) -> None:
    named = {"type": "int", "connect.parameters": {"__debezium.source.column.name": "a b"}}
    whole = envelope({"name": "a_b", "type": named})
    key = {"type": "record", "name": "Key", "fields": [{"name": "a_b", "type": named}]}
    server.schemas = {1: whole, 2: key}
    decoded = read(
        "debezium-avro",
        change(1, whole, "c", None, {"a_b": 1}),
        keys=[message(2, key, {"a_b": 1})],
        registry=registry(server),
    )
    assert rows(decoded) == [("+I", {"a b": 1})]
    assert decoded.batches[0].schema.primary_keys == ("a b",)
    assert decoded.batches[0].schema.fields[0].type == '{"type":"int"}'


def test_columns_that_share_a_named_type_keep_their_own_names(server: Registry) -> None:
    """The first use defines the type, with what Debezium says of that column; the others name the type alone."""
    geometry = {
        "type": "record",
        "name": "Geometry",
        "namespace": "io.debezium.data.geometry",
        "fields": [{"name": "wkb", "type": "bytes"}, {"name": "srid", "type": ["null", "int"]}],
        "connect.parameters": {
            "__debezium.source.column.name": "_geometry",
            "__debezium.source.column.type": "GEOMETRY",
        },
        "connect.name": "io.debezium.data.geometry.Geometry",
    }
    size = {
        "type": "enum",
        "name": "Size",
        "symbols": ["s", "m"],
        "connect.parameters": {"__debezium.source.column.name": "first size"},
    }
    whole = envelope(
        {"name": "_geometry", "type": geometry},
        {"name": "_geometrycollection", "type": ["null", "io.debezium.data.geometry.Geometry"]},
        {"name": "first_size", "type": size},
        {"name": "second_size", "type": "Size"},
    )
    server.schemas = {1: whole}
    point = {"wkb": bytes.fromhex("0101000000000000000000f03f0000000000000040"), "srid": 1}
    row = {"_geometry": point, "_geometrycollection": point, "first_size": "s", "second_size": "m"}
    decoded = read("debezium-avro", change(1, whole, "c", None, row), registry=registry(server))
    [(_, found)] = rows(decoded)
    assert list(found) == ["_geometry", "_geometrycollection", "first size", "second_size"]
    assert found["_geometry"] == found["_geometrycollection"]
    assert (found["first size"], found["second_size"]) == ("s", "m")


def test_declared_types_contain_the_connect_type() -> None:
    assert connect_type_of('{"type":"long"}') is None
    assert str(connect_type_of(DECIMAL)) == (
        "bytes org.apache.kafka.connect.data.Decimal connect.decimal.precision=10 scale=2"
    )
    source = {"type": "int", "connect.parameters": {"__debezium.source.column.type": "TINYINT"}}
    assert connect_type_of(source) == ConnectType("int32", None, (("__debezium.source.column.type", "TINYINT"),))


@pytest.mark.parametrize(("connector", "declared"), [("mysql", "INT4"), ("postgresql", None)])
def test_source_types_of_other_databases_than_mysql_are_not_used(connector: str, declared: str | None) -> None:
    column = {"type": "int", "connect.parameters": {"__debezium.source.column.type": "INT4"}}
    source = {
        "type": "record",
        "name": "Source",
        "fields": [],
        "connect.name": f"io.debezium.connector.{connector}.Source",
    }
    whole = envelope({"name": "c", "type": column})
    whole["fields"] = [field for field in whole["fields"] if field["name"] != "source"] + [
        {"name": "source", "type": source}
    ]
    [found] = compile_schema(whole).row_columns()
    kind = connect_type_of(found.schema)
    assert (kind.source_type if kind else None) == declared


RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "r", "type": optional("R")}]}
UNION = envelope({"name": "u", "type": ["int", "string"]})
NOTHING = envelope({"name": "n", "type": {"type": "array", "items": "null"}})


@pytest.mark.parametrize(
    ("value", "reason", "text"),
    [
        (b"", "not-avro", "not in Confluent's wire format"),
        (b'{"op":"c"}', "not-avro", "not in Confluent's wire format"),
        (struct.pack(">bI", 0, 99), "bad-value", "the schema registry has no schema 99"),
        (struct.pack(">bI", 0, 1), "not-avro", "the record does not match schema 1"),
        (change(1, SIMPLE, "c", None, {"id": 1, "v": None}) + b"x", "not-avro", "unexpected bytes after the record"),
        (struct.pack(">bI", 0, 3) + b"\x02" * 100_000, "bad-value", "type R at r is unknown or recursive"),
        (struct.pack(">bI", 0, 4), "bad-value", "before.u is a union of several types"),
        (struct.pack(">bI", 0, 5), "bad-value", "before.n is an array without an item type"),
        (struct.pack(">bI", 0, 6), "bad-value", "the Avro schema cannot be used"),
        (message(7, "int", 5), "not-avro", "schema 7 is not a record type"),
        (message(8, KEY, {"id": 1}), "missing-field", "Invalid debezium-avro format: missing 'op' field."),
        (change(1, SIMPLE, "c", None, None), "missing-field", "missing 'after' field when 'op' is 'c'."),
        (change(1, SIMPLE, "x", None, None), "unknown-operation", "Unknown record operation: x"),
    ],
)
def test_bad_record_names_the_reason(server: Registry, value: bytes, reason: str, text: str) -> None:
    server.schemas = {1: SIMPLE, 3: RECURSIVE, 4: UNION, 5: NOTHING, 6: {"x": 1}, 7: "int", 8: KEY}
    good = change(1, SIMPLE, "c", None, {"id": 1, "v": None})
    decoded = read("debezium-avro", good, value, good, registry=registry(server))
    (bad,) = decoded.bad
    assert (bad.pos, bad.reason_class) == (1, reason)
    assert text in bad.message
    assert [pos for pos, *_ in placed(decoded)] == [0, 2]


def test_other_messages_are_skipped(server: Registry) -> None:
    beat = {"type": "record", "name": "Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]}
    text = {"name": "status", "type": "string"}, {"name": "id", "type": "string"}
    transaction = {"type": "record", "name": "T", "fields": list(text)}
    server.schemas = {1: beat, 2: transaction}
    decoded = read(
        "debezium-avro",
        message(1, beat, {"ts_ms": 1}),
        message(2, transaction, {"status": "END", "id": "1"}),
        registry=registry(server),
    )
    assert decoded.skipped == {"heartbeat": 1, "transaction": 1}


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 30), st.binary(min_size=1, max_size=9))
def test_any_bytes_result_in_rows_or_bad_records(tail: bytes, at: int, patch: bytes) -> None:
    class Fixed(SchemaRegistry):
        def schema(self, number: int) -> Any:
            return SIMPLE

    seed = change(1, SIMPLE, "u", {"id": 1, "v": "é"}, {"id": 2, "v": None})
    values = [struct.pack(">bI", 0, 1) + tail, seed[:at] + patch + seed[at + 1 :], seed]
    decoded = read("debezium-avro", *values, registry=Fixed("http://nowhere"))
    assert {pos for pos, *_ in placed(decoded)} | {bad.pos for bad in decoded.bad} >= {1, 2}


def test_registry_outage_is_not_a_bad_record(server: Registry) -> None:
    server.schemas = {1: SIMPLE}
    server.fail = 100
    with pytest.raises(SourceError, match="no schema registry can be reached") as caught:
        read("debezium-avro", change(1, SIMPLE, "c", None, {"id": 1, "v": None}), registry=registry(server))
    assert caught.value.retryable
    server.fail = 2
    decoded = read("debezium-avro", change(1, SIMPLE, "c", None, {"id": 1, "v": None}), registry=registry(server))
    assert rows(decoded) == [("+I", {"id": 1, "v": None})]


def test_a_registry_uses_credentials_and_does_not_show_them(server: Registry) -> None:
    server.schemas, server.password = {1: "int"}, "me:secret"
    with pytest.raises(ConfigError, match="rejected the request"):
        registry(server).schema(1)
    known = registry(server, user_info="me:secret")
    assert known.schema(1) == "int"
    assert "secret" not in repr(known)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(known)


def test_second_url_is_used_if_the_first_does_not_answer(server: Registry) -> None:
    server.schemas = {1: "int"}
    assert SchemaRegistry(f"http://127.0.0.1:9, {server.url}/").schema(1) == "int"


@pytest.mark.parametrize("extra", [{"schemaType": "JSON"}, {"references": [{"name": "x"}]}])
def test_schema_that_is_not_plain_avro_is_refused(server: Registry, extra: dict[str, Any]) -> None:
    server.schemas, server.extra = {1: "int"}, extra
    (bad,) = read("debezium-avro", struct.pack(">bI", 0, 1), registry=registry(server)).bad
    assert "only Avro schemas without references are supported" in bad.message


def test_registry_is_needed_and_its_url_checked() -> None:
    with pytest.raises(ConfigError, match="needs a schema registry"):
        read("debezium-avro", b"")
    with pytest.raises(ConfigError, match="must be http or https"):
        SchemaRegistry("file:///etc")
