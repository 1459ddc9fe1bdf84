"""Placeholders of Debezium for values that are not in a message never become values, in whichever form they are."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from penstock.formats.change import DecodeResult
from tests.avro import change, envelope, optional
from tests.unit.formats.support import placed, read

TEXT = "__debezium_unavailable_value"
BYTES = TEXT.encode()
POINT = bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")
JSON_FORMS = {
    "text": TEXT,
    "base64": base64.b64encode(BYTES).decode(),
    "hex": BYTES.hex(),
    "hstore as JSON": f'{{"{TEXT}":"{TEXT}"}}',
    "hstore as a map": {TEXT: TEXT},
    "text[]": [TEXT],
    "bytea[]": [base64.b64encode(BYTES).decode()],
    "integer[]": list(BYTES),
    "uuid[]": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    "geometry": {"wkb": base64.b64encode(POINT).decode(), "srid": 4326},
}
AVRO_FORMS = {
    "text": ("string", TEXT),
    "bytes": ("bytes", BYTES),
    "map": ({"type": "map", "values": "string"}, {TEXT: TEXT}),
    "array": ({"type": "array", "items": "string"}, [TEXT]),
    "bytea[]": ({"type": "array", "items": "bytes"}, [BYTES]),
    "bigint[]": ({"type": "array", "items": "long"}, list(BYTES)),
}
LOST = "the unchanged value of column v is not in the message"


def payload(operation: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"db": "d", "table": "t"}, "op": operation}


class OneSchema:
    def __init__(self, schema: Any) -> None:
        self.only = schema

    def schema(self, number: int) -> Any:
        return self.only


def reasons(decoded: DecodeResult) -> set[str]:
    return {bad.message.partition(":")[0] for bad in decoded.bad}


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("form", JSON_FORMS)
def test_a_new_row_with_a_placeholder_is_a_bad_record(form: str, rows: int) -> None:
    value = {"id": 1, "v": JSON_FORMS[form]}
    for operation, before in (("u", None), ("u", value), ("c", None), ("r", None)):
        decoded = read("debezium-json", *[payload(operation, before, value)] * rows)
        assert (len(decoded.bad), reasons(decoded), decoded.batches) == (rows, {LOST}, [])
    unwrapped = read("json", *[value] * rows)
    assert (len(unwrapped.bad), reasons(unwrapped), unwrapped.batches) == (rows, {LOST}, [])


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("form", JSON_FORMS)
def test_the_old_row_has_the_value_that_the_new_one_lacks(form: str, rows: int) -> None:
    kept = payload("u", {"id": 1, "v": "big"}, {"id": 1, "v": JSON_FORMS[form]})
    assert [row for *_, row in placed(read("debezium-json", *[kept] * rows))] == [{"id": "1", "v": "big"}] * 2 * rows


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("form", JSON_FORMS)
def test_an_old_row_has_null_instead_of_a_placeholder(form: str, rows: int) -> None:
    old, new = {"id": 1, "v": JSON_FORMS[form]}, {"id": 1, "v": "new"}
    updated = read("debezium-json", *[payload("u", old, new)] * rows)
    assert [row["v"] for *_, row in placed(updated)] == [None, "new"] * rows
    deleted = read("debezium-json", *[payload("d", old, None)] * rows)
    assert [row for *_, row in placed(deleted)] == [{"id": "1", "v": None}] * rows


@pytest.mark.parametrize("form", AVRO_FORMS)
def test_a_placeholder_in_avro_is_a_bad_record(form: str) -> None:
    kind, value = AVRO_FORMS[form]
    schema = envelope({"name": "id", "type": "int"}, {"name": "v", "type": optional(kind)})
    changed = change(1, schema, "u", None, {"id": 1, "v": value})
    decoded = read("debezium-avro", changed, registry=OneSchema(schema))
    assert (reasons(decoded), decoded.batches) == ({LOST}, [])
