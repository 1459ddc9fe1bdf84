"""Canal messages of tables with the same columns are decoded together, and each table has its own rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from penstock.formats import decode
from penstock.formats.canal import alike_groups, bulk, framed_rows
from penstock.formats.canal.known_frames import KnownFrames
from penstock.formats.change import DecodeOptions, DecodeResult, ImageRule, Messages

TABLES, ROWS = 40, 10
TYPES = {"id": "bigint", "color": "enum('red','blue')"}


def message(number: int, **members: Any) -> Any:
    updated = number // TABLES % 2 == 1
    return {
        "data": [{"id": str(number), "color": "1"}],
        "database": "db",
        "es": 10**12 + number,
        "mysqlType": TYPES,
        "old": [{"color": "2"}] if updated else None,
        "pkNames": ["id"],
        "table": f"t{number % TABLES}",
        "ts": 10**12 + number,
        "type": "UPDATE" if updated else "INSERT",
    } | members


def encoded(changed: dict[int, Any], count: int = TABLES * ROWS) -> Messages:
    found = [message(number, **changed.get(number, {})) for number in range(count)]
    return Messages([json.dumps(each, separators=(",", ":")).encode() for each in found], np.arange(len(found)))


def shown(decoded: DecodeResult) -> Any:
    rows = [
        (int(batch.positions[place]), int(batch.subs[place]), batch.schema.table, int(batch.kinds[place]), row)
        for batch in decoded.batches
        for place, row in enumerate(batch.rows.to_pylist())
    ]
    return sorted(rows, key=lambda row: row[:2]), [(record.pos, record.message) for record in decoded.bad]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tables were added at a time, by a process that has met no messages before."""
    monkeypatch.setattr("penstock.formats.canal.decode._known", KnownFrames())
    found: list[int] = []
    by_layout = bulk.decode_bulk

    def counted(*arguments: Any) -> None:
        found.append(len(arguments[2]))
        by_layout(*arguments)

    monkeypatch.setattr(alike_groups, "decode_bulk", counted)
    monkeypatch.setattr(framed_rows, "decode_bulk", counted)
    return found


CHANGES: list[tuple[dict[int, Any], int]] = [
    ({}, 1),
    ({5: {"data": [{"id": "5", "color": "9"}]}}, 1),  # no such label
    ({5: {"data": [{"color": "1", "id": "5"}]}}, 0),  # another order of columns
]


@pytest.mark.parametrize(("changed", "times"), CHANGES)
@pytest.mark.parametrize("images", ["all", "key-changes"])
def test_rows_of_tables_with_the_same_columns_are_those_of_each_alone(
    changed: dict[int, Any], times: int, images: Any, cut: list[int]
) -> None:
    options = DecodeOptions(images, frozenset({"id"}))
    together = shown(decode("canal-json", encoded(changed), options))
    assert cut.count(TABLES) == times
    alone = shown(decode("canal-json", encoded(changed), DecodeOptions(images, frozenset({"id"}), bulk_rows=10**6)))
    assert together == alone
    assert [position for position, _ in together[1]] == [5] * ("9" in str(changed))


# Of 26 tables and of 14: as many as are added together.
FRAMED: list[tuple[dict[int, Any], list[int]]] = [
    ({}, [26, 14]),
    (CHANGES[1][0], [26, *[1] * 26, 14]),
    (CHANGES[2][0], [*[1] * 25, 14]),
]


@pytest.mark.parametrize(("changed", "added"), FRAMED)
@pytest.mark.parametrize("images", ["all", "key-changes"])
def test_tables_whose_messages_have_frames_are_added_together(
    changed: dict[int, Any], added: list[int], images: Any, cut: list[int]
) -> None:
    messages = encoded(changed, TABLES * 150)
    together = shown(decode("canal-json", messages, DecodeOptions(images, frozenset({"id"}))))
    assert cut == added
    alone = DecodeOptions(images, frozenset({"id"}), bulk_rows=10**6)
    assert together == shown(decode("canal-json", messages, alone))


def test_tables_with_different_image_rules_are_decoded_apart(cut: list[int]) -> None:
    rules = {("db", f"t{number}"): ImageRule("key-changes") for number in range(10)}
    decoded = decode("canal-json", encoded({}, TABLES * 20), DecodeOptions("all", frozenset({"id"}), rules))
    assert sorted(cut) == [10, TABLES - 10]
    before = {batch.schema.table for batch in decoded.batches if (batch.subs == 0).any()}
    assert before == {f"t{number}" for number in range(10, TABLES)}
