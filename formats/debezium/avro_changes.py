"""Changes in Avro messages of one schema: the rows before and after them in columns, as ChangeBatches.

Some messages are not added, but left to the decoder of single records: damaged messages, operations without rows,
deleted rows that are not in the message, and values that the source did not send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import (
    Bools,
    DecodeOptions,
    DecodeResult,
    ImageRule,
    Int64s,
    Messages,
    SourceSchema,
    TableName,
)
from penstock.formats.debezium.avro_schema import HEAD_BYTES, Schema
from penstock.formats.debezium.avro_values import column_of_values
from penstock.formats.debezium.avro_walk import Member, Records, Walk, column_of
from penstock.formats.faults import Faults
from penstock.formats.row_builder import DecodedRows
from penstock.formats.text_groups import text_groups
from penstock.formats.unsent_values import ENCODED_FORMS
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds

_UNDECIDED = -1
# The kind of a change by the byte of its operation.
_KINDS = np.full(256, _UNDECIDED, np.int8)
_KINDS[list(b"crud")] = [INSERT, INSERT, UPDATE_AFTER, DELETE]
_IS_FORM_LENGTH = np.zeros(max(map(len, ENCODED_FORMS)) + 2, np.bool_)
_IS_FORM_LENGTH[[len(form) for form in ENCODED_FORMS]] = True


@cache
def _forms() -> pa.Array:
    # Not made at import: Arrow's first array of a list imports pandas, which `late_pandas` can prevent by then.
    return pa.array(sorted(ENCODED_FORMS), pa.binary())


@dataclass(frozen=True, slots=True)
class _Images:
    """The rows of one side of the messages: the number of each message's row, -1 without one, and their columns."""

    place: Int64s
    columns: Sequence[pa.Array]

    @classmethod
    def of(cls, side: Member | None, count: int) -> _Images:
        if not isinstance(side, Records):
            return cls(np.full(count, -1, np.int64), ())
        place = np.arange(count)
        if side.present is not None:
            place = np.full(count, -1, np.int64)
            place[side.present] = np.arange(len(side.present))
        return cls(place, [column_of(member) for member in side.members.values()])


class AvroChanges:
    """Messages that have schemas in common, walked through; `schema` is that of the values, `own` that of the keys."""

    def __init__(
        self, messages: Messages, options: DecodeOptions, numbers: Int64s, schema: Schema, own: Schema | None
    ) -> None:
        assert schema.node is not None
        self._messages, self._options, self._numbers, self._schema = messages, options, numbers, schema
        walk = Walk(chosen(messages.values, numbers), schema.node, HEAD_BYTES)
        self._odd, self._members = walk.odd, walk.members
        self._keys: dict[str, pa.Array] = {}
        if own is not None and own.node is not None and messages.keys is not None:
            keys = Walk(chosen(messages.keys, numbers), own.node, HEAD_BYTES)
            self._odd |= keys.odd
            names = [column.name for column in own.columns]
            self._keys = dict(zip(names, map(column_of, keys.members.values()), strict=True))
        self._before, self._after = (_Images.of(walk.members.get(side), len(numbers)) for side in ("before", "after"))
        self._kinds = self._decided()

    def _decided(self) -> RowKinds:
        """Return the kind of each message's change, undecided if it is left to the decoder of single records."""
        kinds = _KINDS[_first_bytes(self._members["op"])]
        kinds[(kinds != DELETE) & (self._after.place < 0)] = _UNDECIDED
        kinds[(kinds == DELETE) & (self._before.place < 0)] = _UNDECIDED
        for images in (self._before, self._after):
            unsent = np.zeros(len(images.columns[0]) if images.columns else 0, np.bool_)
            for column in images.columns:
                unsent |= _are_unsent(column)
            if unsent.any():
                has_row = np.flatnonzero(images.place >= 0)
                kinds[has_row[unsent[images.place[has_row]]]] = _UNDECIDED
        kinds[self._odd] = _UNDECIDED
        return kinds

    def add_to(self, decoded: DecodeResult) -> Bools:
        """Add the rows; return which messages were accepted."""
        accepted: Bools = np.zeros(len(self._numbers), np.bool_)
        for name, places in self._tables():
            rule = self._options.rule(*name, tuple(self._keys))
            watch = {watched.lower() for watched in rule.watch}
            watched = [place for place, column in enumerate(self._schema.columns) if column.name.lower() in watch]
            if any(self._is_nested(place) for place in watched):
                continue
            mine = places[~self._moves_by_key(watched)[places]]
            if len(mine):
                self._add_rows(name, mine, self._moved(watched), rule, decoded)
                accepted[mine] = True
        return accepted

    def _tables(self) -> Iterator[tuple[TableName, Int64s]]:
        """Yield the tables, and the places of their messages among those that are decided."""
        decided = np.flatnonzero(self._kinds != _UNDECIDED)
        source = self._members.get("source")
        members: Mapping[str, Member] = source.members if isinstance(source, Records) else {}
        if isinstance(source, Records) and source.present is not None:
            return  # some messages have no source
        database = _texts(members.get("schema" if self._options.name_from == "schema" else "db"), decided)
        table = _texts(members.get("table"), decided)
        for name, places in text_groups([database, table]):
            yield cast("TableName", name), decided[places]

    def _is_nested(self, place: int) -> bool:
        images = self._after if self._after.columns else self._before
        nested: bool = pa.types.is_nested(images.columns[place].type)
        return nested

    def _moved(self, watched: Sequence[int]) -> Bools:
        """Return for which messages a watched column has another value before the change than after it."""
        moved: Bools = np.zeros(len(self._numbers), np.bool_)
        both = np.flatnonzero((self._before.place >= 0) & (self._after.place >= 0) & (self._kinds == UPDATE_AFTER))
        if len(both):
            for place in watched:
                before = self._before.columns[place].take(pa.array(self._before.place[both]))
                moved[both] |= _differ(before, self._after.columns[place].take(pa.array(self._after.place[both])))
        return moved

    def _moves_by_key(self, watched: Sequence[int]) -> Bools:
        """Return which updates have no row before the change, but a key with other values than the row after it."""
        moves: Bools = np.zeros(len(self._numbers), np.bool_)
        alone = np.flatnonzero((self._before.place < 0) & (self._kinds == UPDATE_AFTER))
        for place in watched if len(alone) else ():
            key = self._keys.get(self._schema.columns[place].name)
            if key is not None:
                after = self._after.columns[place].take(pa.array(self._after.place[alone]))
                moves[alone] |= _differ(key.take(pa.array(alone)), after)
        return moves

    def _add_rows(self, name: TableName, mine: Int64s, moved: Bools, rule: ImageRule, decoded: DecodeResult) -> None:
        """Add the rows of these messages, each row before a change right in front of the one after it."""
        kinds, moved = self._kinds[mine], moved[mine]
        is_new = kinds != DELETE
        is_old = ~is_new | moved
        if rule.before_images == "all":
            is_old |= (kinds == UPDATE_AFTER) & (self._before.place[mine] >= 0)
        counts = is_old.astype(np.int64) + is_new
        new: Bools = np.zeros(int(counts.sum()), np.bool_)
        new[np.cumsum(counts)[is_new] - 1] = True
        row_kinds = np.where(
            new,
            np.repeat(np.where(moved, INSERT, kinds), counts),
            np.repeat(np.where(kinds == UPDATE_AFTER, np.where(moved, DELETE, UPDATE_BEFORE), kinds), counts),
        ).astype(np.int8)
        columns = self._schema.columns
        fields = tuple(column.source_field() for column in columns)
        faults = Faults()
        arrays = [
            column_of_values(column, values, faults)
            for column, values in zip(columns, self._values(np.repeat(mine, counts), new), strict=True)
        ]
        schema = SourceSchema("avro", *name, fields, tuple(self._keys))
        at, times = self._numbers[np.repeat(mine, counts)], np.repeat(self._times[mine], counts)
        DecodedRows(schema, arrays, at, row_kinds, new.astype(np.int32), times).add_to(decoded, self._messages, faults)

    def _values(self, at: Int64s, new: Bools) -> Iterator[pa.Array]:
        """Yield the columns of rows: those of the messages `at`, where `new` is true after the change, else before."""
        if new.all():
            places = pa.array(self._after.place[at])
            yield from (column.take(places) for column in self._after.columns)
            return
        before, after = self._before.columns, self._after.columns
        count = len(after[0]) if after else 0
        places = pa.array(np.where(new, self._after.place[at], count + self._before.place[at]))
        for number, old in enumerate(before):
            whole = pa.concat_arrays([after[number], old]) if after else old
            yield whole.take(places)

    @cached_property
    def _times(self) -> Int64s:
        times = self._members.get("ts_ms")
        if not isinstance(times, pa.Array):
            return np.full(len(self._numbers), -1, np.int64)
        found: Int64s = np.maximum(np.asarray(times.fill_null(-1)), -1)
        return found


def chosen(texts: Sequence[bytes | None], numbers: Int64s) -> Sequence[bytes]:
    """Return the texts with these numbers. Each of them is there."""
    if len(numbers) == len(texts):
        return cast("Sequence[bytes]", texts)
    return [texts[number] or b"" for number in numbers.tolist()]


def _first_bytes(texts: Member) -> Int64s:
    """Return the byte of each text of one byte, 0 for all others."""
    assert isinstance(texts, pa.Array)
    _, offsets, content = texts.buffers()
    starts = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    found: Int64s = np.zeros(len(texts), np.int64)
    single = np.flatnonzero(np.diff(starts) == 1)
    found[single] = np.frombuffer(content or b"", np.uint8)[starts[single]]
    return found


def _are_unsent(column: pa.Array) -> Bools:
    """Return which values of a column are texts or bytes that stand for a value that the source did not send."""
    unsent: Bools = np.zeros(len(column), np.bool_)
    if pa.types.is_struct(column.type):
        for member in column.flatten():
            unsent |= _are_unsent(member)
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
        lengths = np.minimum(np.diff(offsets), len(_IS_FORM_LENGTH) - 1)
        long = np.flatnonzero(_IS_FORM_LENGTH[lengths])
        if len(long):
            unsent[long] = np.asarray(pc.is_in(column.take(pa.array(long)).cast(pa.binary()), _forms()))
    return unsent


def _texts(member: Member | None, chosen: Int64s) -> pa.Array:
    """Return a member of these messages, null where it is no text."""
    if not isinstance(member, pa.Array) or not pa.types.is_string(member.type):
        return pa.nulls(len(chosen), pa.string())
    return member.take(pa.array(chosen))


def _differ(left: pa.Array, right: pa.Array) -> Bools:
    """Return which values differ; nulls are equal. Values of two types are taken for different."""
    if left.type != right.type:
        return np.ones(len(left), np.bool_)
    equal = pc.or_(pc.fill_null(pc.equal(left, right), fill_value=False), pc.and_(left.is_null(), right.is_null()))
    return ~np.asarray(equal)
