"""Tables with the same columns are cut out together, and each has its own rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from penstock.formats import decode
from penstock.formats.change import ChangeBatch, DecodeOptions, ImageRule, Messages
from penstock.formats.debezium import row_layouts
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

TABLES, ROWS = 50, 8
DATE = "io.debezium.time.Date"


def encoded(messages: list[Any]) -> Messages:
    values = [json.dumps(message, separators=(",", ":")).encode() for message in messages]
    return Messages(values, np.arange(len(values)))


def changes() -> list[Any]:
    """Return updates of `TABLES` tables in turn. Every fourth round of updates changes the key."""
    messages = []
    for number in range(TABLES * ROWS):
        before = {"id": number + (number // TABLES % 4 == 0), "name": f"old {number}"}
        message = {"database": "db", "table": f"t{number % TABLES}", "type": "update", "ts": number}
        messages.append(message | {"data": {"id": number, "name": f"new {number}"}, "old": before})
    return messages


def rows_of(batches: list[ChangeBatch]) -> dict[int, list[tuple[str | None, int, Any]]]:
    """Return table, row kind and values of the rows of each message."""
    found: dict[int, list[tuple[int, str | None, int, Any]]] = {}
    for batch in batches:
        assert [field.name for field in batch.schema.fields] == batch.rows.schema.names
        for place, row in enumerate(batch.rows.to_pylist()):
            at, sub, kind = int(batch.positions[place]), int(batch.subs[place]), int(batch.kinds[place])
            found.setdefault(at, []).append((sub, batch.schema.table, kind, row))
    return {at: [row[1:] for row in sorted(rows, key=lambda row: row[0])] for at, rows in found.items()}


def test_each_of_many_tables_has_its_own_rows() -> None:
    decoded = decode("maxwell-json", encoded(changes()), DecodeOptions("all", frozenset({"id"})))
    found = rows_of(decoded.batches)
    assert len(found) == TABLES * ROWS
    assert not decoded.bad
    for number, message in enumerate(changes()):
        kinds = [UPDATE_BEFORE, UPDATE_AFTER] if message["old"]["id"] == message["data"]["id"] else [DELETE, INSERT]
        rows = [{name: str(value) for name, value in message[side].items()} for side in ("old", "data")]
        assert found[number] == [(message["table"], kind, row) for kind, row in zip(kinds, rows, strict=True)]


def test_each_table_follows_its_own_image_rule() -> None:
    rules = {("db", "t1"): ImageRule("key-changes"), ("db", "t2"): ImageRule("all", frozenset({"name"}))}
    decoded = decode("maxwell-json", encoded(changes()), DecodeOptions("all", frozenset({"id"}), rules))
    kinds = {
        rows[0][0]: [kind for _, kind, _ in rows] for number, rows in rows_of(decoded.batches).items() if number > 60
    }
    assert kinds.pop("t1") == [UPDATE_AFTER]
    assert kinds.pop("t2") == [DELETE, INSERT]
    assert len(kinds) == TABLES - 2


def debezium(number: int, day: int) -> Any:
    fields = [
        {"type": "int64", "optional": True, "field": "id"},
        {"type": "int32", "optional": True, "field": "day", "name": DATE},
    ]
    sides = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
    schema = {"type": "struct", "fields": sides, "name": "Envelope"}
    source = {"db": "db", "table": f"t{number % TABLES}"}
    payload = {"before": None, "after": {"id": number, "day": day}, "source": source, "op": "c", "ts_ms": number}
    return {"schema": schema, "payload": payload}


def test_a_value_that_does_not_fit_leaves_only_its_table_to_the_record_path(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    by_layout = row_layouts.decode_by_layout

    def counted(*arguments: Any) -> Messages:
        others = by_layout(*arguments)
        left.extend(others.offsets.tolist())
        return others

    monkeypatch.setattr("penstock.formats.debezium.decode.decode_by_layout", counted)
    messages = [debezium(number, 1 << 40 if number == 107 else 19_000) for number in range(TABLES * ROWS)]
    decoded = decode("debezium-json", encoded(messages), DecodeOptions("all"))
    assert left == list(range(7, TABLES * ROWS, TABLES))
    assert [record.pos for record in decoded.bad] == [107]
    assert rows_of(decoded.batches).keys() == set(range(TABLES * ROWS)) - {107}
