"""Rows of documents: the key first, and a warning for keys of different types."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.ingest.mongodb.rows import ColumnChoice, DocumentRows
from tests.unit.ingest.mongodb.bson.test_elements import laid_out

TABLE = ("d", "t")


def test_key_is_the_first_column() -> None:
    block, at = laid_out({"a": 1, "_id": 5})
    rows = DocumentRows(ColumnChoice(), Counter()).rows(block, at, TABLE)
    assert rows.to_pylist() == [{"_id": "5", "a": "1"}]
    assert rows.schema.names == ["_id", "a"]


def test_specified_columns_are_always_there() -> None:
    choice = ColumnChoice(fields=(("city", ("address", "city")), ("_id", ("_id",))))
    block, at = laid_out({"_id": 1, "address": {"city": "Rome"}}, {"_id": 2})
    rows = DocumentRows(choice, Counter()).rows(block, at, TABLE)
    assert rows.to_pylist() == [{"_id": "1", "city": "Rome"}, {"_id": "2", "city": None}]


def test_keys_of_texts_and_other_types_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    documents = DocumentRows(ColumnChoice(), Counter())
    for _ in range(2):
        documents.rows(*laid_out({"_id": 5}), TABLE)
    assert caplog.text == ""
    for _ in range(2):
        documents.rows(*laid_out({"_id": "5"}), TABLE)
    assert caplog.text.count("event=mixed_key_types collection=d.t") == 1


def test_equal_columns_are_one_schema() -> None:
    documents = DocumentRows(ColumnChoice(), Counter())
    schema = documents.schema(TABLE, ["_id", "a"])
    assert documents.schema(TABLE, ["_id", "a"]) is schema
    assert (schema.dialect, schema.primary_keys) == ("text", ("_id",))
