"""Schemas in front of payloads: each is read once, whatever its bytes have in common with those of other tables."""

from __future__ import annotations

import json

import pytest

from penstock.formats.debezium.schema_prefix import BARE, SchemaPrefixes


def message(table: str, number: int, name_last: bool) -> bytes:
    name = {"name": f"shop.{table}.Envelope"}
    fields = {"fields": [{"type": "string", "optional": True, "field": f"column_{place}"} for place in range(9)]}
    schema = {"type": "struct", **(fields | name if name_last else name | fields)}
    return json.dumps({"schema": schema, "payload": {"id": number}}, separators=(",", ":")).encode()


@pytest.mark.parametrize("name_last", [True, False])
def test_a_schema_is_numbered_once_when_tables_alternate(name_last: bool) -> None:
    prefixes = SchemaPrefixes()
    for _ in range(2):
        found = prefixes.split([message(table, number, name_last) for number in range(20) for table in ("a", "b", "c")])
        assert found.schemas.tolist() == [0, 1, 2] * 20
        assert found.texts == [b'{"id":%d}' % number for number in range(20) for _ in range(3)]
    assert [json.loads(prefixes.schema(number))["name"] for number in range(3)] == [
        f"shop.{table}.Envelope" for table in "abc"
    ]


def test_a_schema_that_is_not_json_is_left_to_the_record_path() -> None:
    whole = message("a", 1, True)
    wrong = b'{"schema":{"a",' + whole[len(b'{"schema":{') :]
    found = SchemaPrefixes().split([whole, wrong, whole, b'{"id":5}', None])
    assert found.texts == [b'{"id":1}', None, b'{"id":1}', b'{"id":5}', None]
    assert found.schemas.tolist() == [0, BARE, 0, BARE, BARE]
