"""Debezium's operations as row changes, independent of the encoding (JSON or Avro)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from penstock.errors import DecodeError
from penstock.formats.change import MISSING_FIELD, DecodeResult, Messages, TableName, Truncation
from penstock.formats.json_envelope import missing, unknown_operation
from penstock.formats.row_builder import RowBuilder
from penstock.formats.unsent_values import unsent_error, unsent_names
from penstock.row_kinds import UPDATE_AFTER

WITHOUT_ROWS = frozenset({"t", "m"})
Row = dict[str, Any]
KeyRow = Callable[[], Row | None]


def skip_without_rows(operation: str, number: int, name: TableName, messages: Messages, decoded: DecodeResult) -> None:
    """Count a truncate or a logical decoding message."""
    if operation == "m":
        decoded.skipped["message"] += 1
        return
    decoded.skipped["truncate"] += 1
    decoded.truncations.append(Truncation(int(messages.offsets[number]), *name))


def without_operation(format_name: str, members: Collection[str], status: object) -> str:
    """Return the kind of a Debezium message without operation, by its members; DecodeError if it is unknown."""
    names = set(members)
    if names <= {"ts_ms", "ts_us", "ts_ns"}:
        return "heartbeat"
    if "id" in names and status in {"BEGIN", "END"}:
        return "transaction"
    if "databaseName" in names and names & {"ddl", "tableChanges"}:
        return "schema-change"
    if names & {"before", "after"} or not format_name.endswith("json"):
        raise missing(format_name, "op")
    advice = "For rows without an envelope (ExtractNewRecordState), set value.format=json."
    raise DecodeError(f"{missing(format_name, 'op').message} {advice}", reason=MISSING_FIELD)


class Operation(NamedTuple):
    """A change of one row: the kind in Debezium's letters, and both images.

    `key_row` returns the columns of the message key; it is called only if a before image is missing.
    """

    format_name: str
    kind: str
    before: Row | None
    after: Row | None
    key_row: KeyRow

    def add_to(self, rows: RowBuilder, number: int, time: int) -> None:
        """Add the rows of the operation; DecodeError if it lacks an image that it needs."""
        kind, after = self.kind, self.after
        if kind in {"c", "r", "u"} and after is None:
            raise missing(self.format_name, "after", "op", kind)
        if kind in {"c", "r"}:
            rows.change(number, time, None, _complete(after or {}))
        elif kind == "u":
            _add_update(rows, number, time, self.before, after or {}, self.key_row)
        elif kind == "d":
            # A delete without its row still has the key of the message.
            before = self.before or self.key_row()
            if before is None:
                raise missing(self.format_name, "before", "op", "d")
            rows.change(number, time, _known(before), None)
        else:
            raise unknown_operation(kind)


def _add_update(rows: RowBuilder, number: int, time: int, before: Row | None, after: Row, key_row: KeyRow) -> None:
    if unsent_names(after):
        after = _complete({**after, **_kept_values(before or {}, after)})
    if before is not None:
        # The before image may have fewer columns than the row. Missing columns count as unchanged.
        rows.change(number, time, {**after, **_known(before)}, after)
        return
    old = {**after, **(key_row() or {})}
    if rows.moves(old, after):
        rows.change(number, time, old, after)
    else:
        # The before image is unknown, so nothing can be retracted.
        rows.put(number, time, UPDATE_AFTER, after)


def _kept_values(before: Row, after: Row) -> Row:
    return {name: before[name] for name in unsent_names(after) if name in before}


def _complete(row: Row) -> Row:
    """Return a new row; DecodeError if the message lacks any of its values."""
    lost = unsent_names(row)
    if lost:
        raise unsent_error(lost)
    return row


def _known(before: Row) -> Row:
    """Return an old row, with null for values that the message lacks."""
    unsent = unsent_names(before)
    return {**before, **dict.fromkeys(unsent)} if unsent else before
