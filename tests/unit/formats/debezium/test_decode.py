"""debezium-json, plain and with schema."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats import decode
from penstock.formats.change import SourceField, Truncation
from penstock.formats.debezium.connect import ConnectType
from penstock.schema_evolution.types.debezium import debezium_type
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.types import AtomicType
from tests.unit.formats.support import DATA, json_lines, messages, placed, read, rows

RECORDINGS = sorted((DATA / "cdc-recorded/debezium").glob("*.jsonl"))


def payload(operation: str, before: Any, after: Any, **members: Any) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": {"db": "d", "table": "t"},
        "op": operation,
        "ts_ms": 5,
    } | members


def wrapped(fields: list[dict[str, Any]], inner: dict[str, Any], row: str = "after") -> dict[str, Any]:
    return {
        "schema": {"type": "struct", "fields": [{"field": row, "type": "struct", "fields": fields}]},
        "payload": inner,
    }


def one_column(value: Any, **field: Any) -> pa.Array:
    """The column `c` with declared type `field` of one insert, or its bad record's message."""
    decoded = read("debezium-json", wrapped([{"field": "c", **field}], payload("c", None, {"c": value})))
    assert not decoded.bad, decoded.bad
    return decoded.batches[0].rows.column(0)


def test_operations_of_the_bare_payload() -> None:
    decoded = read(
        "debezium-json",
        payload("r", None, {"id": 1, "v": 1.10}),
        payload("c", None, {"id": 2, "v": None}),
        payload("u", {"v": "a"}, {"id": 2, "v": "b"}),
        payload("d", {"id": 2, "v": "b"}, None),
        None,
        payload("t", None, None),
        payload("m", None, None),
    )
    assert rows(decoded) == [
        ("+I", {"id": "1", "v": "1.1"}),
        ("+I", {"id": "2", "v": None}),
        ("-U", {"id": "2", "v": "a"}),
        ("+U", {"id": "2", "v": "b"}),
        ("-D", {"id": "2", "v": "b"}),
    ]
    (batch,) = decoded.batches
    assert (batch.schema.dialect, batch.schema.database, batch.schema.table) == ("text", "d", "t")
    assert batch.schema.primary_keys == ()
    assert set(batch.event_times.tolist()) == {5}
    assert decoded.skipped == {"tombstone": 1, "truncate": 1, "message": 1}
    assert decoded.truncations == [Truncation(5, "d", "t")]


@pytest.mark.parametrize("key", [{"id": 1}, {"schema": {"type": "struct"}, "payload": {"id": 1}}])
def test_the_message_key_is_the_primary_key_and_replaces_a_missing_before_image(key: Any) -> None:
    decoded = read(
        "debezium-json",
        payload("u", None, {"id": 1, "v": "b"}),
        payload("u", None, {"id": 2, "v": "b"}),
        payload("d", None, None),
        keys=[key] * 3,
    )
    assert rows(decoded) == [
        ("+U", {"id": "1", "v": "b"}),
        ("-D", {"id": "1", "v": "b"}),
        ("+I", {"id": "2", "v": "b"}),
        ("-D", {"id": "1", "v": None}),
    ]
    assert decoded.batches[0].schema.primary_keys == ("id",)


@pytest.mark.parametrize("key", [b"no json", None, b"[1]", b"\xff"])
def test_key_that_is_not_a_json_object_is_ignored(key: bytes | None) -> None:
    decoded = read("debezium-json", payload("c", None, {"id": 1}, pkNames=["id"]), keys=[key])
    assert decoded.batches[0].schema.primary_keys == ("id",)


def test_other_messages_of_debezium_are_skipped() -> None:
    decoded = read(
        "debezium-json",
        {"ts_ms": 1},
        {"schema": None, "payload": {"ts_ms": 1}},
        {"status": "BEGIN", "id": "x", "event_count": None, "ts_ms": 3},
        {"source": {"db": "d", "table": None}, "databaseName": "d", "ddl": "drop", "tableChanges": []},
    )
    assert decoded.skipped == {"heartbeat": 2, "transaction": 1, "schema-change": 1}
    assert not decoded.bad


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        ({"before": None, "after": {}}, "missing-field", "Invalid debezium-json format: missing 'op' field."),
        ({"id": 1, "__op": "c"}, "missing-field", "set value.format=json"),
        ({"schema": None}, "missing-field", "missing 'payload' field."),
        (payload("c", None, None), "missing-field", "missing 'after' field when 'op' is 'c'."),
        (payload("u", {}, None), "missing-field", "missing 'after' field when 'op' is 'u'."),
        (payload("d", None, None), "missing-field", "missing 'before' field when 'op' is 'd'."),
        (payload("x", {}, {}), "unknown-operation", "Unknown record operation: x"),
        ({"schema": {"fields": []}, "payload": payload("c", None, {})}, "bad-value", "does not describe a row"),
        (payload("c", None, "text"), "not-json", "Expected `object"),
    ],
)
def test_bad_record_names_the_reason(value: Any, reason: str, message: str) -> None:
    good = payload("c", None, {"id": 1})
    decoded = read("debezium-json", good, value, good)
    (bad,) = decoded.bad
    assert (bad.pos, bad.reason_class) == (1, reason)
    assert message in bad.message
    assert [pos for pos, *_ in placed(decoded)] == [0, 2]


def test_an_unsent_value_is_copied_from_the_before_image() -> None:
    unsent = "__debezium_unavailable_value"
    kept = payload("u", {"id": 1, "v": "big"}, {"id": 1, "v": unsent})
    lost = payload("u", None, {"id": 1, "v": unsent})
    decoded = read("debezium-json", kept, lost)
    (bad,) = decoded.bad
    assert "the unchanged value of column v is not in the message" in bad.message
    assert [row for *_, row in placed(decoded)] == [{"id": "1", "v": "big"}] * 2


def test_schema_declares_types_comments_and_order() -> None:
    fields = [
        {"field": "id", "type": "int32", "doc": "the key"},
        {"field": "d", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        {"field": "absent", "type": "string"},
    ]
    decoded = read("debezium-json", wrapped(fields, payload("d", {"d": "EtaH", "id": 3, "odd": 1}, None), row="before"))
    assert rows(decoded) == [("-D", {"id": 3, "d": "12345.67", "odd": "1"})]
    schema = decoded.batches[0].schema
    assert schema.dialect == "debezium"
    assert schema.fields == (
        SourceField("id", "int32", "the key"),
        SourceField("d", "bytes org.apache.kafka.connect.data.Decimal scale=2"),
        SourceField("odd"),
    )


def test_null_schema_is_unwrapped_and_untyped() -> None:
    (batch,) = read("debezium-json", {"schema": None, "payload": payload("c", None, {"id": 1})}).batches
    assert batch.schema.dialect == "text"
    assert batch.rows.to_pylist() == [{"id": "1"}]


def test_declared_type_reads_back() -> None:
    kind = ConnectType("int16", "a b=c%", (("__debezium.source.column.type", "ENUM('a b','c=d')"), ("scale", "-3")))
    assert ConnectType.parse(str(kind)) == kind
    assert kind.source_type == "ENUM('a b','c=d')"
    assert kind.number("scale") == -3
    assert ConnectType.parse("int64 io.debezium.time.Date") == ConnectType("int64", "io.debezium.time.Date")


DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
NOON = datetime(2024, 2, 29, 12, 34, 56, 789012)


@pytest.mark.parametrize(
    ("field", "value", "column", "expected"),
    [
        ({"type": "int8"}, -5, pa.int64(), -5),
        ({"type": "double"}, 1.25, pa.string(), "1.25"),
        ({"type": "float64"}, "NaN", pa.string(), "NaN"),
        ({"type": "boolean"}, True, pa.bool_(), True),
        ({"type": "bytes"}, "AP8=", pa.binary(), b"\x00\xff"),
        ({"type": "string"}, "x", pa.string(), "x"),
        ({"type": "struct", "fields": []}, {"a": [1, None]}, pa.string(), '{"a":[1,null]}'),
        ({"type": "array"}, ["a", 1], pa.string(), '["a",1]'),
        ({"type": "map"}, {"k": True}, pa.string(), '{"k":true}'),
        ({"type": "int32", "name": "io.debezium.time.Date"}, 19782, pa.date32(), date(2024, 2, 29)),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, -1, pa.date32(), date(1969, 12, 31)),
        ({"type": "int32", "name": "io.debezium.time.Time"}, 1500, pa.duration("ms"), timedelta(seconds=1.5)),
        ({"type": "int64", "name": "io.debezium.time.MicroTime"}, -1, pa.duration("us"), timedelta(microseconds=-1)),
        (
            {"type": "int64", "name": "io.debezium.time.Timestamp"},
            1709210096789,
            pa.timestamp("ms"),
            NOON.replace(microsecond=789000),
        ),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 1709210096789012, pa.timestamp("us"), NOON),
        (
            {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
            "2024-02-29T13:34:56.789012+01:00",
            pa.timestamp("us", "UTC"),
            NOON.replace(tzinfo=UTC),
        ),
        (
            {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
            "2024-02-29T12:34:56.789012000Z",
            pa.timestamp("us", "UTC"),
            NOON.replace(tzinfo=UTC),
        ),
        (
            {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
            "2024-02-29T13:34:56.7890129+01:00",
            pa.string(),
            "2024-02-29 12:34:56.789012900",
        ),
        ({"type": "string", "name": "io.debezium.time.IsoDate"}, "2024-02-29Z", pa.string(), "2024-02-29"),
        ({"type": "int32", "name": "io.debezium.time.Year"}, 2024, pa.int64(), 2024),
        (DECIMAL | {"parameters": {"scale": "2"}}, "EtaH", pa.string(), "12345.67"),
        (DECIMAL | {"parameters": {"scale": "4"}}, "/w==", pa.string(), "-0.0001"),
        (DECIMAL | {"parameters": {"scale": "0"}}, "AKtUqYzrHwrS", pa.string(), "12345678901234567890"),
        (DECIMAL | {"parameters": {"scale": "-2"}}, "AQ==", pa.string(), "100"),
        (DECIMAL | {"parameters": {"scale": "2"}}, 1.5, pa.string(), "1.5"),
        (DECIMAL | {"parameters": {"scale": "2"}}, 7, pa.string(), "7"),
        (DECIMAL | {"parameters": {"scale": "2"}}, 1.5e100, pa.string(), f"15{'0' * 99}"),
        (DECIMAL | {"parameters": {"scale": "2"}}, "-12.50", pa.string(), "-12.50"),
        (
            {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
            {"scale": 3, "value": "EtaH"},
            pa.string(),
            "1234.567",
        ),
        (
            {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "33"}},
            "AQAAAAE=",
            pa.binary(),
            bytes.fromhex("0100000001"),
        ),
        (
            {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "64"}},
            "xwc=",
            pa.binary(),
            bytes.fromhex("00000000000007c7"),
        ),
        (
            {"type": "struct", "name": "io.debezium.data.geometry.Point"},
            {"wkb": "AQEAAAAAAAAAAAD4vwAAAAAAAARA", "srid": 4326},
            pa.string(),
            '{"coordinates":[-1.5,2.5],"type":"Point","srid":4326}',
        ),
        ({"type": "array", "name": "io.debezium.data.FloatVector"}, [1, 0.5], pa.list_(pa.float32()), [1.0, 0.5]),
        (
            {"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}},
            -1,
            pa.string(),
            "18446744073709551615",
        ),
    ],
)
def test_values_of_connect_types(field: dict[str, Any], value: Any, column: pa.DataType, expected: Any) -> None:
    array = one_column(value, **field)
    assert array.type == column
    assert array.to_pylist() == [expected]
    assert one_column(None, **field).to_pylist() == [None]


def test_a_wrapped_null_is_a_tombstone() -> None:
    """JsonConverter wrapped the null of a tombstone before KAFKA-3832."""
    for bulk_rows in (1, 200):
        decoded = read(
            "debezium-json", b'{"schema":null,"payload":null}', {"schema": {}, "payload": None}, bulk_rows=bulk_rows
        )
        assert (decoded.bad, decoded.batches, decoded.skipped) == ([], [], {"tombstone": 2})


@pytest.mark.parametrize(
    ("connector", "uses_source_type"),
    [("mysql", True), ("mariadb", True), (None, True), ("postgresql", False), ("sqlserver", False), ("oracle", False)],
)
def test_source_types_of_other_databases_than_mysql_are_not_used(connector: str | None, uses_source_type: bool) -> None:
    """FLOAT of SQL Server has the digits of a DOUBLE, DATE of Oracle a time of day, and MySQL has no INT4."""
    found = {"__debezium.source.column.type": "FLOAT", "__debezium.source.column.length": "53"}
    message = wrapped([{"field": "c", "type": "double", "parameters": found}], payload("c", None, {"c": 1.25}))
    source = {"field": "source", "type": "struct", "name": f"io.debezium.connector.{connector}.Source"}
    message["schema"]["fields"].append(source if connector else {"field": "source", "type": "struct"})
    for bulk_rows in (1, 200):
        decoded = read("debezium-json", message, bulk_rows=bulk_rows)
        [field] = decoded.batches[0].schema.fields
        assert (ConnectType.parse(field.type or "").source_type == "FLOAT") == uses_source_type
        assert debezium_type(field.type or "", TypeMapping()) == AtomicType("FLOAT" if uses_source_type else "DOUBLE")


def test_instants_keep_digits_beyond_microseconds_in_every_year_and_in_both_images() -> None:
    zoned = {"field": "c", "type": "string", "name": "io.debezium.time.ZonedTimestamp"}
    changes = [
        ("2024-02-29T12:34:56.789012Z", "2024-02-29T12:34:56.789012001Z"),
        ("9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z"),
        (None, "2024-02-29T12:34:56.789012002Z"),
    ]
    updates = [
        wrapped([zoned], payload("u", {"c": before}, {"c": after}) | {"source": {"db": "d", "table": "t"}})
        for before, after in changes
    ]
    for bulk_rows in (1, 200):
        decoded = read("debezium-json", *updates, before_images="all", bulk_rows=bulk_rows)
        assert [row["c"] for _, row in rows(decoded)] == [
            "2024-02-29 12:34:56.789012",
            "2024-02-29 12:34:56.789012001",
            "9999-12-31 23:59:59.999999999",
            "0001-01-01 00:00:00.000000",
            None,
            "2024-02-29 12:34:56.789012002",
        ]


@pytest.mark.parametrize("scale", ["0", "2", "7"])
def test_a_decimal_is_what_its_json_number_says(scale: str) -> None:
    # Digits alone could also be base64, whose length is a multiple of four.
    numbers = [
        f"{sign}{digits}{exponent}"
        for sign in ("", "-")
        for digits in ("0", "12", "1.5", "1.25", "1234")
        for exponent in ("", "E+2", "e3", "E-8", "E+9")
    ]
    for number in numbers:
        text = json.dumps(
            wrapped([{"field": "c", **DECIMAL, "parameters": {"scale": scale}}], payload("c", None, {"c": 0}))
        )
        decoded = read("debezium-json", text.replace('"after": {"c": 0}', f'"after": {{"c": {number}}}').encode())
        assert [Decimal(row["c"]) for _, row in rows(decoded)] == [Decimal(number)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "int32"}, "x"),
        ({"type": "int64"}, 1 << 63),
        ({"type": "int64"}, True),
        ({"type": "boolean"}, 1),
        ({"type": "bytes"}, "a"),
        ({"type": "bytes"}, 5),
        ({"type": "int32", "name": "io.debezium.time.Date"}, 1 << 31),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2024-02-29T12:34:56"),
        (DECIMAL, "ü"),
        (DECIMAL, ""),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 0, "value": ""}),
        (DECIMAL | {"parameters": {"scale": "1000000000"}}, "AQ=="),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 1 << 40, "value": "AQ=="}),
        ({"type": "struct", "name": "io.debezium.data.geometry.Point"}, {"wkb": "AQ=="}),
        ({"type": "array", "name": "io.debezium.data.FloatVector"}, ["x"]),
    ],
)
def test_value_that_does_not_fit_its_type_is_a_bad_record(field: dict[str, Any], value: Any) -> None:
    column = {"field": "c", **field}
    decoded = read("debezium-json", *[wrapped([column], payload("c", None, {"c": item})) for item in (None, value)])
    (bad,) = decoded.bad
    assert (bad.pos, bad.reason_class) == (1, "bad-value")
    assert bad.message.startswith("the value of column c does not fit ")
    assert [pos for pos, *_ in placed(decoded)] == [0]


def test_decimal_columns_and_single_values_agree() -> None:
    numbers = [0, 5, -5, 99, -100, 12345, -(1 << 62), (1 << 63) - 1]
    texts = [base64.b64encode(number.to_bytes(9, "big", signed=True)).decode() for number in numbers]
    column = {"field": "c", "parameters": {"scale": "3"}, **DECIMAL}
    inserts = [wrapped([column], payload("c", None, {"c": text})) for text in texts]
    whole = [row["c"] for _, row in rows(read("debezium-json", *inserts))]
    assert whole == [one_column(text, parameters={"scale": "3"}, **DECIMAL)[0].as_py() for text in texts]
    assert whole[:5] == ["0.000", "0.005", "-0.005", "0.099", "-0.100"]


def recording(path: Any) -> tuple[list[bytes | None], list[bytes | None]]:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    both = [(line["value"], line["key"]) for line in lines]
    sides = [[None if item is None else json.dumps(item).encode() for item in side] for side in zip(*both, strict=True)]
    return sides[0], sides[1]


def test_the_least_number_of_a_type_is_read_beside_a_value_that_does_not_fit() -> None:
    fields = [{"field": "n", "type": "int64"}, {"field": "d", "type": "int32", "name": "io.debezium.time.Date"}]
    least, most = {"n": -(1 << 63), "d": -(1 << 31)}, {"n": (1 << 63) - 1, "d": (1 << 31) - 1}
    images = [least, {"n": 1 << 63, "d": 0}, most, {"n": 0, "d": 1 << 31}, {"n": -(1 << 63) - 1, "d": 0}]
    decoded = read("debezium-json", *(wrapped(fields, payload("c", None, image)) for image in images))
    assert [record.pos for record in decoded.bad] == [1, 3, 4]
    columns = [
        column.view(pa.int64() if column.type == pa.int64() else pa.int32()).to_pylist()
        for column in decoded.batches[0].rows.columns
    ]
    assert columns == [[least["n"], most["n"]], [least["d"], most["d"]]]


@pytest.mark.parametrize(
    "path", [path for path in RECORDINGS if "unwrapped" not in path.name], ids=lambda path: path.stem
)
def test_recordings_decode_without_bad_records(path: Any) -> None:
    values, keys = recording(path)
    decoded = read("debezium-json", *values, keys=keys)
    assert decoded.bad == []
    keyed = {batch.schema.table: batch.schema.primary_keys for batch in decoded.batches}
    assert keyed["all_types"] == ("id",)
    assert keyed["two_keys"] == ("region", "id")
    assert keyed["no_key"] == ()
    assert decoded.skipped["schema-change"] > 10


def test_recorded_values_with_schema() -> None:
    (path,) = [path for path in RECORDINGS if path.stem.endswith("schemas")]
    values, keys = recording(path)
    decoded = read("debezium-json", *values, keys=keys)
    row = next(row for *_, row in placed(decoded) if row.get("c_vc") == "中文 and 😀 emoji")
    assert row["c_dec65"] == "12345678901234567890123456789012345.123456789012345678901234567891"
    assert row["c_dec0"] == "12345678901234567890"
    assert row["c_decu"] == "1234.5678"
    assert row["c_bit8"] == b"\xa5"
    assert row["c_bit64"] == bytes.fromhex("8000000000000001")
    assert row["c_dt6"] == NOON
    assert row["c_time3"] == -timedelta(hours=12, minutes=34, seconds=56, milliseconds=789)
    assert row["c_ts6"] == NOON.replace(tzinfo=UTC)
    assert row["c_vb"] == bytes.fromhex("deadbeef")
    assert row["c_gc"].startswith('{"geometries":[')
    assert row["c_set"] == "a,ç"


def test_unwrapped_recording_is_json() -> None:
    (path,) = [path for path in RECORDINGS if path.stem.endswith("unwrapped")]
    values, keys = recording(path)
    refused = read("debezium-json", *values, keys=keys)
    assert refused.bad
    assert all("value.format=json" in bad.message for bad in refused.bad)
    assert not read("json", *values).bad


@pytest.mark.parametrize("path", sorted(DATA.glob("cdc-samples/debezium/*/*.txt")), ids=lambda path: path.parts[-2])
def test_samples_decode_without_bad_records(path: Any) -> None:
    assert decode("debezium-json", messages(*json_lines(path))).bad == []
