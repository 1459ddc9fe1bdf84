"""The per-record path of every format: rows collected by source schema become ChangeBatches.

A format adds each change with `RowBuilder.change`; the image rule of the table decides which rows an update yields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import (
    BAD_VALUE,
    BadRecord,
    ChangeBatch,
    DecodeOptions,
    DecodeResult,
    ImageRule,
    Int64s,
    Messages,
    SourceField,
    SourceSchema,
)
from penstock.formats.faults import Faults
from penstock.formats.json_text import text_column
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

# More columns than any database allows, and the most cells of one batch if its rows have few members in common.
MAX_MEMBERS = 10_000
MAX_CELLS = 4_000_000
AFTER_KINDS = frozenset({INSERT, UPDATE_AFTER})
Row = Mapping[str, Any]
Read = Callable[[Sequence[Any], Faults], pa.Array]


class RowBuilder:
    """The rows of one source schema with their message numbers, in message order."""

    def __init__(self, rule: ImageRule, names: Iterable[str] | None = None) -> None:
        self.rule = rule
        self.all_images = rule.before_images == "all"
        self.watch = {name.lower() for name in rule.watch}
        # If the columns are declared, other members are ignored.
        self.watched = None if names is None else [name for name in names if name.lower() in self.watch]
        self._moving: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        self.rows: list[Row] = []
        # Parallel to `rows`: message number, place in the message, kind, event time.
        self.places: list[tuple[int, int, int, int]] = []

    def change(self, at: int, time: int, before: Row | None, after: Row | None, number: int = 0) -> None:
        """Add a change of the message's row `number`: an insert, update or delete, depending on which images are given.

        DecodeError for a row with too many members; nothing is added then.
        """
        # `check_members` raises the error; the test here spares a call per change.
        if len(before or ()) > MAX_MEMBERS or len(after or ()) > MAX_MEMBERS:
            check_members([before or {}, after or {}])
        if before is None or after is None:
            if after is not None:
                self.put(at, time, INSERT, after, number)
            elif before is not None:
                self.put(at, time, DELETE, before, number)
        elif self.moves(before, after):
            self.put(at, time, DELETE, before, number)
            self.put(at, time, INSERT, after, number)
        else:
            if self.all_images:
                self.put(at, time, UPDATE_BEFORE, before, number)
            self.put(at, time, UPDATE_AFTER, after, number)

    def moves(self, before: Row, after: Row) -> bool:
        """Return whether a watched column differs between the two images."""
        # An old row that was made of the key and the new row shares its other values with the new row. One
        # of these may be NaN, which differs from itself.
        pairs = ((before.get(name), after.get(name)) for name in self._watched_of(before, after))
        return any(old is not new and old != new for old, new in pairs)

    def _watched_of(self, before: Row, after: Row) -> Iterable[str]:
        if self.watched is not None:
            return self.watched
        members = tuple(before), tuple(after)
        if members not in self._moving:
            both = before.keys() | after.keys()
            self._moving[members] = [name for name in both if name.lower() in self.watch]
        return self._moving[members]

    def put(self, at: int, time: int, kind: int, row: Row, number: int = 0) -> None:
        """Add one row image of the message's row `number` with its kind."""
        self.rows.append(row)
        self.places.append((at, 2 * number + (kind in AFTER_KINDS), kind, time))

    def names(self) -> list[str]:
        """Return every member of any row, in order of first appearance."""
        seen: dict[str, None] = {}
        # Rows have few distinct lists of members, so those are compared and not the members of each row.
        for names in {tuple(row): None for row in self.rows}:
            seen.update(dict.fromkeys(names))
        return list(seen)

    def parts(self) -> Iterator[RowBuilder]:
        """Yield the rows in parts that each have at most MAX_CELLS cells; usually a single part.

        Rows that have few members in common would otherwise make a table that consists almost only of nulls.
        """
        if len(self.names()) * len(self.rows) <= MAX_CELLS:
            yield self
            return
        start, seen = 0, dict[str, None]()
        for end, row in enumerate(self.rows):
            seen.update(dict.fromkeys(row))
            if len(seen) * (end + 1 - start) > MAX_CELLS and end > start and not self._is_second(end):
                yield self._part(start, end)
                start, seen = end, dict.fromkeys(row)
        yield self._part(start, len(self.rows))

    def _is_second(self, place: int) -> bool:
        """Return whether this row and the one before it are the two rows of an update."""
        (at, before, *_), (message, after, *_) = self.places[place - 1], self.places[place]
        return at == message and before // 2 == after // 2

    def _part(self, start: int, end: int) -> RowBuilder:
        part = RowBuilder(self.rule)
        part.rows, part.places = self.rows[start:end], self.places[start:end]
        return part

    def values(self, names: Sequence[str]) -> list[Sequence[Any]]:
        """Return the values of each column, None where a row lacks the member."""
        wanted = tuple(names)
        if names and self.rows and all(tuple(row) == wanted for row in self.rows):
            # The usual case, and several times cheaper than a lookup per row and member.
            return list(zip(*[row.values() for row in self.rows], strict=True))
        return [[row.get(name) for row in self.rows] for name in names]

    def batch(self, schema: SourceSchema, reads: Sequence[Read], messages: Messages, decoded: DecodeResult) -> None:
        """Append the ChangeBatch.

        `reads` has one function per field, which converts the member's values to the column.
        """
        faults = Faults()
        values = self.values([field.name for field in schema.fields])
        columns = [read(column, faults) for read, column in zip(reads, values, strict=True)]
        at, sub, kinds, times = np.array(self.places, np.int64).reshape(-1, 4).T
        rows = DecodedRows(schema, columns, at, kinds.astype(np.int8), sub.astype(np.int32), times)
        rows.add_to(decoded, messages, faults)


def check_members(rows: Iterable[Sized]) -> None:
    """DecodeError for a row with more members than a table can have columns, before any row of its message is added."""
    most = max(map(len, rows), default=0)
    if most > MAX_MEMBERS:
        raise DecodeError(f"{most} columns in one row, and at most {MAX_MEMBERS} are accepted", reason=BAD_VALUE)


class TextTables:
    """The rows of formats that declare no types, by source table and keys: every column is text."""

    def __init__(self, options: DecodeOptions) -> None:
        self.options = options
        self.rows: dict[tuple[str | None, str | None, tuple[str, ...] | None], RowBuilder] = {}

    def of(self, database: str | None, table: str | None, keys: Iterable[str] | None) -> RowBuilder:
        """Return the rows collected for this table and key; `keys` is None if the message says nothing about them."""
        identity = (database, table, None if keys is None else tuple(keys))
        rows = self.rows.get(identity)
        if rows is None:
            rows = self.rows[identity] = RowBuilder(self.options.rule(database, table, identity[2] or ()))
        return rows

    def finish(self, messages: Messages, decoded: DecodeResult) -> None:
        """Append the ChangeBatches of all tables."""
        for (database, table, keys), rows in self.rows.items():
            for part in rows.parts():
                fields = tuple(SourceField(name) for name in part.names())
                schema = SourceSchema("text", database, table, fields, keys or (), states_no_key=keys == ())
                part.batch(schema, [texts] * len(fields), messages, decoded)


def texts(values: Sequence[Any], _faults: Faults) -> pa.Array:
    """Return a column of JSON values as text."""
    return text_column(values)


def each(convert: Callable[[Any], object], kind: pa.DataType, problem: str) -> Read:
    """Return a function that converts a column value by value. A value that `convert` rejects is faulty."""

    def read(values: Sequence[Any], faults: Faults) -> pa.Array:
        converted: list[object] = []
        for row, value in enumerate(values):
            try:
                converted.append(None if value is None else convert(value))
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                faults.add([row], f"{problem}: {repr(value)[:80]}")
                converted.append(None)
        return pa.array(converted, kind)

    return read


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows of one source schema, before the messages with faulty rows are rejected.

    Parallel to the rows: `at` the number of the message, `kinds`, `sub` the order within the message, and `times` of
    the events.
    """

    schema: SourceSchema
    columns: Sequence[pa.Array]
    at: np.ndarray
    kinds: np.ndarray
    sub: np.ndarray
    times: np.ndarray

    def add_to(self, decoded: DecodeResult, messages: Messages, faults: Faults) -> None:
        """Reject the messages with faulty rows and append the other rows as one ChangeBatch."""
        self.add_tables([self.schema], np.array([len(self.at)]), decoded, messages, faults)

    def add_tables(
        self, schemas: Sequence[SourceSchema], ends: Int64s, decoded: DecodeResult, messages: Messages, faults: Faults
    ) -> None:
        """Do the same for rows of several tables: those of each end at one of `ends`."""
        batch, at, kinds, sub, times = self._batch(), self.at, self.kinds, self.sub, self.times
        if faults:
            wrong = faults.bad_messages(at)
            decoded.bad += [bad_record(messages, number, error) for number, error in wrong.items()]
            keep = ~np.isin(at, list(wrong))
            batch = batch.filter(pa.array(keep))
            at, kinds, sub, times = at[keep], kinds[keep], sub[keep], times[keep]
            ends = np.append(0, np.cumsum(keep))[ends]
        whole = ChangeBatch(batch, kinds, messages.offsets[at], sub, self.schema, times)
        if len(schemas) == 1 and len(at):
            decoded.batches.append(whole)
            return
        for schema, begin, end in zip(schemas, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            if end > begin:
                decoded.batches.append(whole.part(schema, begin, end))

    def _batch(self) -> pa.RecordBatch:
        if self.columns:
            struct = pa.StructArray.from_arrays(self.columns, [field.name for field in self.schema.fields])
        else:
            # Rows without any column still count, which only a struct array can express.
            struct = pa.StructArray.from_buffers(pa.struct([]), len(self.at), [None])
        return pa.RecordBatch.from_struct_array(struct)


def bad_record(messages: Messages, number: int, error: DecodeError) -> BadRecord:
    """Return the record of a message that was rejected with this error."""
    raw = messages.values[number] or b""
    return BadRecord(int(messages.offsets[number]), str(error.facts["reason"]), error.message, raw)
