"""Schemas in front of payloads: each is read once, whatever its bytes have in common with those of other tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from penstock.formats.debezium import schema_prefix
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


def odd_messages(seed: int) -> list[bytes | None]:
    """Return messages of many tables, some without a schema, cut off, or with a schema that is no JSON."""
    random = Random(seed)
    tables = random.choice([1, 2, 5, 40, 2 * schema_prefix._MOST_INDEXED])
    odd: list[Callable[[bytes], bytes | None]] = [
        lambda whole: whole[:-1],
        lambda whole: whole + b" ",
        lambda whole: whole.replace(b'"type"', b'"type', 1),
        lambda whole: whole.replace(b"payload", b"payloads"),
        lambda _: b'{"id":5}',
        lambda _: b"",
        lambda _: None,
    ]
    messages: list[bytes | None] = []
    for number in range(900):
        whole = message(str(random.randrange(tables)), number, random.random() < 0.5)
        messages.append(random.choice(odd)(whole) if random.random() < 0.05 else whole)
    return messages


@pytest.mark.parametrize("seed", range(12))
def test_messages_have_the_same_payloads_and_schemas_together_and_alone(seed: int) -> None:
    messages = [message("0", 0, True), *odd_messages(seed)]
    together, alone = SchemaPrefixes(), SchemaPrefixes()
    for _ in range(2):  # schemas are new in the first pass, and indexed in the second
        found = together.split(messages)
        each = [alone.split([messages[0], value]) for value in messages]
        assert found.texts == [pair.texts[1] for pair in each]
        schemas = [pair.schemas.tolist()[1] for pair in each]
        assert [number == BARE for number in found.schemas.tolist()] == [number == BARE for number in schemas]
        pairs = [pair for pair in zip(found.schemas.tolist(), schemas, strict=True) if BARE not in pair]
        assert all(together.schema(number) == alone.schema(other) for number, other in pairs)
