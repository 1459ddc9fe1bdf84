"""The random tables: whatever a strategy gives is storable, and comes back from Arrow as it was."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.golden.relations import Relation, difference
from tests.golden.rows import arrow_rows

few = settings(max_examples=settings().max_examples // 4)


@given(st.data())
@few
def test_random_rows_of_every_type_survive_a_round_trip_through_arrow(data: st.DataObject) -> None:
    of = data.draw(strategies.columns())
    rows: list[list[Any]] = data.draw(strategies.rows(of))
    names, types = zip(*of.columns, strict=True)
    assert difference(Relation(names, types, rows), arrow_rows(rows, of.columns)) is None


@given(st.data())
@few
def test_keys_are_unique_and_not_null(data: st.DataObject) -> None:
    of = data.draw(strategies.columns(depth=0))
    rows: list[list[Any]] = data.draw(strategies.rows(of))
    keys = [tuple(row[: of.keys]) for row in rows]
    assert len(set(keys)) == len(keys)
    assert all(cell is not None for key in keys for cell in key)
