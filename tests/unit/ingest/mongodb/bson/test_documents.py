"""Documents as columns: nested values as JSON, keys, and values at paths."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from typing import Any

import pytest
from bson import Code, Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.mongodb.bson.documents import at_path, columns_and_keys
from tests.unit.ingest.mongodb.bson.test_elements import laid_out


def columns(*documents: dict[str, Any], **choice: bool) -> dict[str, list[str | None]]:
    block, at = laid_out(*documents)
    keys, _, found = columns_and_keys(block, at, Counter(), **choice)
    return {"_id": keys.to_pylist()} | {name: column.to_pylist() for name, column in found.items()}


NESTED = [
    ({"f": "v", "n": None, "l": Int64(3), "d": 4.0}, '{"f":"v","n":null,"l":{"$numberLong":"3"},"d":4.0}'),
    ([1, "x", None, float("nan")], '[1,"x",null,null]'),
    ({}, "{}"),
    ([], "[]"),
    ({"a": [{"b": [[]]}]}, '{"a":[{"b":[[]]}]}'),
    ({'q"': 1}, '{"q\\"":1}'),
    (Code("f()", {"x": 1}), '{"$code":"f()","$scope":{"x":1}}'),
]


@pytest.mark.parametrize(("value", "text"), NESTED, ids=lambda case: str(case)[:30])
def test_nested_value_is_compact_json(value: object, text: str) -> None:
    assert columns({"_id": 1, "v": value})["v"] == [text]


def test_nested_values_of_different_shapes_keep_their_order() -> None:
    values, texts = zip(*NESTED, strict=True)
    assert columns(*({"_id": 1, "v": value} for value in values))["v"] == list(texts)


def test_names_that_some_documents_lack_are_null() -> None:
    found = columns({"_id": 1, "a": 1}, {"_id": 2, "b": "x", "a": None}, {"_id": 3, "b": 2.5})
    assert found == {"_id": ["1", "2", "3"], "a": ["1", None, None], "b": [None, "x", "2.5"]}


def test_keys_of_all_types_are_texts() -> None:
    key = ObjectId()
    keys = [key, 5, "t", 1.0, Int64(5), {"a": 1, "b": "y"}, None]
    wanted = [str(key), "5", "t", "1.0", '{"$numberLong":"5"}', '{"a":1,"b":"y"}', "null"]
    assert columns(*({"_id": key} for key in keys))["_id"] == wanted
    assert columns({"_id": key}, hex_ids=False)["_id"] == [f'{{"$oid":"{key}"}}']


def test_values_at_a_path_of_names_and_numbers() -> None:
    documents = [
        {"_id": 1, "a": {"b": [{"c": "x"}, {"c": 2}]}},
        {"_id": 2, "a": {"b": [1, {"c": {"d": 1}}]}},
        {"_id": 3, "a": 5},
        {"_id": 4, "a": [{"b": 1}]},
    ]
    block, at = laid_out(*documents)
    assert at_path(block, at, ("a", "b", "1", "c"), Counter()).to_pylist() == ["2", '{"d":1}', None, None]
    assert at_path(block, at, ("a",), Counter()).to_pylist()[2:] == ["5", '[{"b":1}]']
    assert at_path(block, at, ("nothing", "at", "all"), Counter()).to_pylist() == [None] * 4
    assert at_path(block, at, ("_id",), Counter()).to_pylist() == ["1", "2", "3", "4"]


def test_values_of_extended_json_at_a_path() -> None:
    key, time = ObjectId(), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    block, at = laid_out(
        {"_id": key, "v": {"t": time}},
        {"_id": 5, "v": {"t": {"$date": "not a date"}}},
        {"_id": Int64(7), "v": {"t": "2024"}},
        {"_id": Decimal128("1.50"), "v": {"t": None}},
        {"_id": Decimal128("2"), "v": [time]},
    )

    def found(*path: str) -> list[str | None]:
        texts: list[str | None] = at_path(block, at, path, Counter()).to_pylist()
        return texts

    assert found("v", "t", "$date") == ["1704067200000", "not a date", None, None, None]
    assert found("v", "0", "$date") == [None, None, None, None, "1704067200000"]
    assert found("_id", "$oid") == [str(key), None, None, None, None]
    assert found("_id", "$numberLong") == [None, None, "7", None, None]
    assert found("_id", "$numberDecimal") == [None, None, None, "1.50", "2"]
    assert found("_id", "$date") == [None] * 5


_texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.lists(_values, min_size=1, max_size=8))
def test_json_of_any_value_is_that_value(values: list[Any]) -> None:
    found = columns(*({"_id": 1, "v": value} for value in values))["v"]
    for text, value in zip(found, values, strict=True):
        if value is None or isinstance(value, str):
            assert text == value
        else:
            assert json.loads(text or "") == value
