"""Which rows a batch of changes makes of the current versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.schema_evolution.row_versions import as_history
from penstock.schema_evolution.version_chain import VersionChain
from penstock.table.schema.new_schema import create_schema
from penstock.table.values.arrow_types import arrow_schema

TIMES = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
SCHEMA = as_history(
    "ods.t",
    create_schema(
        [
            ("id", "STRING"),
            ("v", "DOUBLE"),
            ("many", "ARRAY<INT>"),
            ("valid_from", TIMES),
            ("valid_to", TIMES),
            ("is_current", "BOOLEAN"),
            *((name, "STRING") for name in ("_operation", "_position", "_end_position")),
        ],
        ["id"],
        (),
        {"bucket": "1"},
        now=0,
    ),
)
ARROW = arrow_schema(SCHEMA.fields)
Row = dict[str, Any]


def row(key: str, value: float | None, millis: int, number: int = 0, stream: str = "p", **more: Any) -> Row:
    position = f"{stream}:{number:020}.000000"
    times = {"valid_from": millis, "valid_to": None, "is_current": True}
    return (
        {"id": key, "v": value, "many": [1], **times, "_operation": "+I", "_position": position}
        | {"_end_position": ""}
        | more
    )


def written(current: list[Row], changes: list[tuple[int, Row]], *, old: bool = False) -> list[tuple[int, Any, str]]:
    """The kind, the value and the end of each row to write."""
    rows = pa.RecordBatch.from_pylist([change for _, change in changes], ARROW)
    kinds = np.array([kind for kind, _ in changes], np.int8)
    found, kinds = VersionChain.of(SCHEMA, pa.RecordBatch.from_pylist(current, ARROW), rows, kinds).written(
        (), with_old=old
    )
    return list(zip(kinds.tolist(), found["v"].to_pylist(), found["_end_position"].to_pylist(), strict=True))


def test_an_update_ends_the_version_and_begins_one() -> None:
    changes = [(UPDATE_BEFORE, row("a", 1, 9, 5)), (UPDATE_AFTER, row("a", 2, 9, 5))]
    ended = (INSERT, 1, "0000000000009 p:00000000000000000005.000000")
    assert written([row("a", 1, 3)], changes) == [ended, (UPDATE_AFTER, 2, "")]
    assert written([row("a", 1, 3)], changes, old=True) == [ended, (UPDATE_BEFORE, 1, ""), (UPDATE_AFTER, 2, "")]


def test_a_delete_ends_the_version_and_a_second_one_does_nothing() -> None:
    changes = [(DELETE, row("a", 1, 9, 5)), (DELETE, row("a", 1, 9, 6)), (DELETE, row("b", 1, 9, 7))]
    assert [(kind, value) for kind, value, _ in written([row("a", 1, 3)], changes)] == [(INSERT, 1), (DELETE, 1)]


def test_no_version_ends_before_it_began_when_a_clock_is_set_back() -> None:
    changes = [row("a", 2, 9, 5), row("a", 3, 4, 6), row("a", 4, 12, 7)]
    rows = pa.RecordBatch.from_pylist(changes, ARROW)
    chain = VersionChain.of(SCHEMA, pa.RecordBatch.from_pylist([row("a", 1, 3)], ARROW), rows, np.full(3, UPDATE_AFTER))
    found, _ = chain.written((), with_old=False)
    # The type has milliseconds.
    times = [found[name].cast(pa.int64()).to_pylist() for name in ("v", "valid_from", "valid_to")]
    assert sorted(zip(*times, strict=True)) == [(1, 3, 9), (2, 9, 9), (3, 9, 12), (4, 12, None)]


@pytest.mark.parametrize("value", [None, 1.5, float("nan")])
def test_equal_values_make_no_version(value: float | None) -> None:
    assert written([row("a", value, 3)], [(INSERT, row("a", value, 9, 5)), (INSERT, row("a", value, 9, 6))]) == []


def test_nested_values_are_compared() -> None:
    changes = [(UPDATE_AFTER, row("a", 1, 9, 5, many=[1, 2]))]
    assert len(written([row("a", 1, 3)], changes)) == 2


def test_a_change_that_was_applied_is_left_out_unless_its_stream_began_again() -> None:
    current = [row("a", 3, 9, 5)]
    assert written(current, [(UPDATE_AFTER, row("a", 1, 8, 4)), (UPDATE_AFTER, row("a", 2, 9, 5))]) == []
    assert written(current, [(DELETE, row("a", 3, 9, 4))]) == []
    # Positions of another stream, and of a stream that counts from zero again.
    assert len(written(current, [(UPDATE_AFTER, row("a", 1, 8, 4, stream="q"))])) == 2
    assert len(written(current, [(UPDATE_AFTER, row("a", 1, 10, 1))])) == 2


def test_a_version_of_an_emptied_table_continues_or_ends_when_the_table_was_emptied() -> None:
    current = [row("a", 1, 3, is_current=False, valid_to=7)]
    assert written(current, [(INSERT, row("a", 1, 9, stream="q"))]) == [(UPDATE_AFTER, 1, "")]
    changes = [(INSERT, row("a", 2, 9, stream="q"))]
    assert written(current, changes) == [(INSERT, 1, "0000000000007 emptied"), (UPDATE_AFTER, 2, "")]


def test_no_changes_write_nothing() -> None:
    assert written([], []) == []
    assert written([], [(DELETE, row("a", 1, 3))]) == []
