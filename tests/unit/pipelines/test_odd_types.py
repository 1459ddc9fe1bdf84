"""Messages that declare types which no database has, or which nobody knows: one of them stops no pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import DecodeError, SchemaConflict
from tests.here import run
from tests.shop import Shop, insert

ODD = ["bit(99)", "decimal(5,9)", "varchar(99999999999)", "char(4294967296)", "datetime(77)"]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def declaring(declared: str, row: dict[str, Any], column: str = "name") -> str:
    message = json.loads(insert("o", row))
    message["mysqlType"][column] = declared
    return json.dumps(message)


def letters(shop: Shop) -> list[tuple[str, int]]:
    found = shop.table("__penstock_dead_letters").scan().to_arrow().to_pylist()
    return sorted((row["topic"], row["offset"]) for row in found)


@pytest.mark.parametrize("declared", [*ODD, "geometryxyz(3)", "hyperlink"])
def test_a_message_with_invalid_types_is_a_dead_letter_and_the_others_are_written(shop: Shop, declared: str) -> None:
    good = [insert("o", {"id": at, "name": "a"}) for at in (1, 2)]
    shop.put("1.json", good[0], declaring(declared, {"id": 9, "name": "1"}), good[1])
    run(shop.spec(errors={"bad-record": "dead-letter"}))
    assert shop.ids("o") == [1, 2]
    assert letters(shop) == [("1.json", len(good[0]) + 1)]
    # Once the table is there it is the same.
    shop.put("2.json", declaring(declared, {"id": 10, "name": "1"}), insert("o", {"id": 3, "name": "c"}))
    run(shop.spec(errors={"bad-record": "dead-letter"}))
    assert shop.ids("o") == [1, 2, 3]
    assert len(letters(shop)) == 2


@pytest.mark.parametrize("declared", [*ODD, "geometryxyz(3)"])
def test_without_a_policy_a_bad_record_stops_the_job_with_its_position(shop: Shop, declared: str) -> None:
    shop.put("1.json", insert("o", {"id": 1, "name": "a"}))
    run(shop.spec())
    shop.put("2.json", declaring(declared, {"id": 9, "name": "1"}))
    with pytest.raises(DecodeError, match="name") as refused:
        run(shop.spec())
    facts = refused.value.facts
    assert (facts["place"], facts["offset"]) == ("2.json", 0)


def test_a_new_column_of_an_unknown_type_is_kept_as_bytes(shop: Shop) -> None:
    shop.put("1.json", declaring("geometryxyz(3)", {"id": 1, "name": "a"}))
    run(shop.spec())
    assert shop.rows("o") == [{"id": 1, "name": b"a"}]


def test_a_known_type_that_does_not_fit_is_a_conflict_with_its_position(shop: Shop) -> None:
    shop.put("1.json", insert("o", {"id": 1, "name": "a"}))
    run(shop.spec())
    shop.put("2.json", insert("o", {"id": 2, "name": "b"}), declaring("date", {"id": 9, "name": "2024-05-06"}))
    with pytest.raises(SchemaConflict, match="Cannot convert field name") as refused:
        run(shop.spec(errors={"bad-record": "dead-letter"}))
    facts = refused.value.facts
    assert (facts["place"], facts["table"]) == ("2.json", "ods.o")
    assert facts["offset"] > 0


@pytest.mark.parametrize("parameters", [{"length": "99999999999999"}, {"length": "-8"}])
def test_bits_of_an_invalid_width_are_a_dead_letter(shop: Shop, parameters: dict[str, str]) -> None:
    bits = {"field": "b", "type": "bytes", "name": "io.debezium.data.Bits", "parameters": parameters}
    fields = [{"field": "id", "type": "int64"}, bits]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "after": {"id": 1, "b": "AQ=="}, "source": {"db": "shop", "table": "o"}}
    good = {"schema": {**schema, "fields": [{**schema["fields"][0], "fields": fields[:1]}]}}
    shop.put(
        "1.json",
        json.dumps({"schema": schema, "payload": payload}),
        json.dumps(good | {"payload": payload | {"after": {"id": 2}}}),
    )
    run(
        shop.spec(
            source={"value.format": "debezium-json"},
            errors={"bad-record": "dead-letter"},
            sink={"primary-keys": ["id"]},
        )
    )
    assert shop.ids("o") == [2]
    assert letters(shop) == [("1.json", 0)]
