"""debezium-bson: documents as texts, keys, and the value forms of extended JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.formats.support import DATA, json_lines, placed, read, rows

ID = {"$oid": "67ab25755c0d5ac87eb8c632"}
KEY = {"id": json.dumps(ID)}


def event(operation: str, before: Any, after: Any) -> dict[str, Any]:
    sides = {"before": before, "after": after}
    texts = {side: json.dumps(item) if isinstance(item, dict) else item for side, item in sides.items()}
    return {**texts, "op": operation, "ts_ms": 7, "source": {"db": "d", "collection": "c"}}


def test_operations_and_keys() -> None:
    decoded = read(
        "debezium-bson",
        event("c", None, {"_id": ID, "v": 1}),
        event("u", {"_id": ID, "v": 1}, {"_id": ID, "v": 2}),
        event("u", None, {"_id": ID, "v": 3, "new": None}),
        event("u", None, None),
        event("d", None, None),
        event("t", None, None),
        keys=[KEY] * 6,
    )
    key = ID["$oid"]
    assert rows(decoded) == [
        ("+I", {"_id": key, "v": "1", "new": None}),
        ("-U", {"_id": key, "v": "1", "new": None}),
        ("+U", {"_id": key, "v": "2", "new": None}),
        ("-U", {"_id": key, "v": None, "new": None}),
        ("+U", {"_id": key, "v": "3", "new": None}),
        ("-D", {"_id": key, "v": None, "new": None}),
        ("-D", {"_id": key, "v": None, "new": None}),
    ]
    (batch,) = decoded.batches
    assert (batch.schema.database, batch.schema.table, batch.schema.primary_keys) == ("d", "c", ("_id",))
    assert decoded.skipped == {"truncate": 1}


@pytest.mark.parametrize(("text", "key"), [('"abc"', "abc"), ("5", "5"), ('{"$numberLong":"7"}', "7")])
def test_key_of_any_kind(text: str, key: str) -> None:
    wrapped = {"schema": {"type": "struct"}, "payload": {"id": text}}
    decoded = read("debezium-bson", {"schema": None, "payload": event("d", None, None)}, keys=[wrapped])
    assert rows(decoded) == [("-D", {"_id": key})]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ({"$symbol": "s"}, "s"),
        ({"$code": "f()"}, "f()"),
        (5, "5"),
        ({"$numberInt": "-5"}, "-5"),
        ({"$numberLong": "1736207571013"}, "1736207571013"),
        (3.14, "3.14"),
        (0.0, "0.0"),
        ({"$numberDouble": "1e10"}, "1.0E10"),
        ({"$numberDouble": "12345678.5"}, "1.23456785E7"),
        ({"$numberDouble": "0.0001"}, "1.0E-4"),
        ({"$numberDouble": "-0.0"}, "-0.0"),
        ({"$numberDouble": "NaN"}, "NaN"),
        ({"$numberDouble": "-Infinity"}, "-Infinity"),
        ({"$numberDecimal": "1.20E+3"}, "1200"),
        ({"$numberDecimal": "0.10"}, "0.10"),
        ({"$numberDecimal": "NaN"}, "NaN"),
        (True, "true"),
        (None, None),
        ({"$undefined": True}, None),
        (ID, "67ab25755c0d5ac87eb8c632"),
        ({"$date": 1739455397970}, "1739455397970"),
        ({"$date": {"$numberLong": "-1"}}, "-1"),
        ({"$date": "2025-02-13T14:03:17.970Z"}, "1739455397970"),
        ({"$timestamp": {"t": 1739455397, "i": 2}}, "1739455397"),
        ({"$binary": {"base64": "AQID", "subType": "00"}}, "AQID"),
        ({"$binary": {"base64": "uE2/4v5MSVOiJZkOo3APKQ==", "subType": "04"}}, "b84dbfe2-fe4c-4953-a225-990ea3700f29"),
        ({"$regularExpression": {"pattern": "^a/b$", "options": "i"}}, "/^a\\/b$/i"),
        ({"$regularExpression": {"pattern": "", "options": ""}}, "/(?:)/"),
        ({"$minKey": 1}, "BsonMinKey"),
        ({"$maxKey": 1}, "BsonMaxKey"),
        ({"$code": "f()", "$scope": {"a": {"$numberInt": "1"}}}, '{"$code":"f()","$scope":{"a":1}}'),
        (
            {"d": {"$date": 1}, "n": {"$numberDouble": "NaN"}, "l": [1, ID, 2.50, None, True]},
            '{"d":1,"n":"NaN","l":[1,"67ab25755c0d5ac87eb8c632",2.5,null,true]}',
        ),
    ],
)
def test_value_forms(value: Any, text: str | None) -> None:
    assert rows(read("debezium-bson", event("c", None, {"_id": 1, "v": value}))) == [("+I", {"_id": "1", "v": text})]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"op": "c", "after": [1]}, "debezium bson record expected to be STRING type, but actual is ARRAY"),
        (event("d", None, None), "Invalid debezium-bson format: missing 'id' field in key when 'op' is 'd'."),
        (event("c", None, None), "Invalid debezium-bson format: missing 'after' field when 'op' is 'c'."),
        (event("c", None, "{"), "the value is not a JSON record"),
        (event("c", None, {"_id": {"$numberLong": "x"}}), "the document is not MongoDB extended JSON"),
        (event("c", None, {"_id": {"$date": []}}), "the document is not MongoDB extended JSON"),
        (event("x", None, None), "Unknown record operation: x"),
        ({"after": "{}"}, "missing 'op' field."),
    ],
)
def test_bad_records_are_named(value: Any, message: str) -> None:
    (bad,) = read("debezium-bson", value).bad
    assert message in bad.message


def test_sample() -> None:
    lines = json_lines(DATA / "cdc-samples/debezium-bson/update/event-update.txt")
    decoded = read("debezium-bson", *lines[1::2], keys=lines[::2])
    *_, last = placed(decoded)
    assert last[2:] == (
        "+U",
        {
            "_id": "67ab25755c0d5ac87eb8c632",
            "created_at": "1736207571013",
            "created_by": "peter",
            "tags": '["succeed"]',
            "updated_at": "1739455397970",
        },
    )
