"""Rows whose columns differ only in case are in batches of their own, and no row changes its place."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.formats.change import ChangeBatch
from penstock.ingest.mongodb.rows import ColumnChoice, DocumentRows
from penstock.ingest.mongodb.spellings import by_spelling
from tests.unit.ingest.mongodb.bson.test_elements import laid_out

TABLE = ("d", "t")


def divided(*documents: dict[str, Any]) -> list[ChangeBatch]:
    made = DocumentRows(ColumnChoice(), Counter())
    rows = made.rows(*laid_out(*documents), TABLE)
    batch = ChangeBatch.inserts(made.schema(TABLE, rows.schema.names), rows)
    found = by_spelling(batch, made)
    for spelling in found:
        assert [field.name for field in spelling.schema.fields] == spelling.rows.schema.names
    assert sorted(place for batch in found for place in batch.positions) == list(range(len(documents)))
    return found


def test_names_that_differ_in_more_than_case_stay_together() -> None:
    assert len(divided({"_id": 1, "a": 1}, {"_id": 2, "b": 1})) == 1


def test_each_spelling_has_a_batch() -> None:
    found = divided(
        {"_id": 1, "V": "x"}, {"_id": 2, "v": "y", "w": 1}, {"_id": 3}, {"_id": 4, "V": "z"}, {"_id": 5, "V": None}
    )
    rows = {
        int(place): row for batch in found for place, row in zip(batch.positions, batch.rows.to_pylist(), strict=True)
    }
    assert rows == {
        0: {"_id": "1", "V": "x", "w": None},
        1: {"_id": "2", "v": "y", "w": "1"},
        2: {"_id": "3", "V": None, "w": None},
        3: {"_id": "4", "V": "z", "w": None},
        4: {"_id": "5", "V": None, "w": None},
    }


def test_a_document_with_two_spellings_keeps_both() -> None:
    found = divided({"_id": 1, "V": "x", "v": "y"}, {"_id": 2, "v": "z"})
    assert sorted([row for batch in found for row in batch.rows.to_pylist()], key=len) == [
        {"_id": "2", "v": "z"},
        {"_id": "1", "V": "x", "v": "y"},
    ]
