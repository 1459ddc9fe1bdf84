"""The rows of messages that have one layout, added as ChangeBatches without a Python object per row.

A message must mean the same here as in the decoder of single records. Unusual messages are not accepted here but left
to that decoder: an update that moves its row, a value that a column cannot hold, an unknown operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import DecodeOptions, DecodeResult, ImageRule, Int64s, Messages, SourceField, SourceSchema
from penstock.formats.faults import Faults
from penstock.formats.json_bytes import Mask
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import FEWEST_ROWS, KnownLayouts, group_messages
from penstock.formats.row_builder import DecodedRows
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds

# The kind of a message that the record path has to decide.
UNDECIDED = -1
_BULK_ROWS = DecodeOptions().bulk_rows

Kinds = npt.NDArray[np.int8]
ReadMember: TypeAlias = Callable[[SourceField, int, Int64s | None, Faults], pa.Array]
AddGroup: TypeAlias = Callable[[LayoutRows], Mask]


@dataclass(frozen=True, slots=True)
class RowMembers:
    """The members of a layout that are the columns `names`: of the row after a change, before it, and of a deleted row.

    Each is empty if the layout has no such row. `deleted` is the row after the change, or the layout has no such row.
    """

    names: tuple[str, ...]
    after: tuple[int, ...]
    before: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMessages:
    """Messages of one layout, table after table, with their row kinds and event times.

    `places` are the positions of the messages in `columns`, None for all. `tables` has the schema of each table and the
    number of its messages: the columns of all are equal, and are cut out together. `read` returns the column of a field
    from a member for the messages at some places.
    """

    columns: MemberColumns
    places: Int64s | None
    members: RowMembers
    kinds: Kinds
    times: Int64s
    tables: Sequence[tuple[SourceSchema, int]]
    read: ReadMember

    def add(self, rule: ImageRule, messages: Messages, decoded: DecodeResult) -> Mask:
        """Append the rows; return which of the messages were accepted."""
        updates = self.kinds == UPDATE_AFTER
        accepted: Mask = (self.kinds == DELETE) if self.members.deleted else np.zeros(len(self.kinds), bool)
        if self.members.after:
            accepted |= (self.kinds == INSERT) | updates
        images = bool(self.members.before and self.members.after)
        if images and updates.any():
            accepted &= ~(updates & self._moved(rule))
        if images and rule.before_images == "all":
            both, single = accepted & updates, accepted & ~updates
            accepted = self._added(both, messages, decoded, with_before=True)
            return accepted | self._added(single, messages, decoded, with_before=False)
        return self._added(accepted, messages, decoded, with_before=False)

    def _moved(self, rule: ImageRule) -> Mask:
        """Return for which messages the bytes of a watched column differ before and after the change."""
        watch = {name.lower() for name in rule.watch}
        moved: Mask = np.zeros(len(self.columns.rows), bool)
        for name, after, before in zip(self.members.names, self.members.after, self.members.before, strict=True):
            if after != before and name.lower() in watch:
                moved |= self.columns.rows.differ(after, before)
        return moved if self.places is None else moved[self.places]

    def _added(self, chosen: Mask, messages: Messages, decoded: DecodeResult, *, with_before: bool) -> Mask:
        nothing: Mask = np.zeros(len(chosen), bool)
        if not chosen.any():
            return nothing
        places = np.arange(len(self.columns.rows)) if self.places is None else self.places
        wanted = None if self.places is None and chosen.all() else places[chosen]
        faults = Faults()
        columns = self._read(self.members.after or self.members.deleted, wanted, faults)
        kinds, times = self.kinds[chosen], self.times[chosen]
        at = self.columns.rows.numbers if wanted is None else self.columns.rows.numbers[wanted]
        subs = (kinds != DELETE).astype(np.int32)
        if with_before:
            befores = self._read(self.members.before, wanted, faults)
            if [column.type for column in befores] != [column.type for column in columns]:
                return nothing  # the values decide the type of some columns, and the record path reads them together
            columns = _interleaved(befores, columns)
            at, times = np.repeat(at, 2), np.repeat(times, 2)
            kinds = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), len(kinds))
            subs = np.tile(np.array([0, 1], np.int32), len(subs))
        if faults:
            return (
                nothing if len(self.tables) == 1 else self._by_table(chosen, messages, decoded, with_before=with_before)
            )
        rows = DecodedRows(self.tables[0][0], columns, at, kinds, subs, times)
        ends = np.cumsum(chosen)[np.cumsum([count for _, count in self.tables]) - 1]
        schemas = [schema for schema, _ in self.tables]
        rows.add_tables(schemas, (1 + with_before) * ends, decoded, messages, faults)
        return chosen

    def _by_table(self, chosen: Mask, messages: Messages, decoded: DecodeResult, *, with_before: bool) -> Mask:
        """Append the rows of each table on its own, so that faulty ones do not keep those of other tables back."""
        accepted: Mask = np.zeros(len(chosen), bool)
        places = np.arange(len(self.columns.rows)) if self.places is None else self.places
        begin = 0
        for schema, count in self.tables:
            part = slice(begin, begin + count)
            kinds, times = self.kinds[part], self.times[part]
            table = replace(self, places=places[part], kinds=kinds, times=times, tables=[(schema, count)])
            accepted[part] = table._added(chosen[part], messages, decoded, with_before=with_before)
            begin += count
        return accepted

    def _read(self, members: Sequence[int], wanted: Int64s | None, faults: Faults) -> list[pa.Array]:
        by_name = dict(zip(self.members.names, members, strict=True))
        return [self.read(field, by_name[field.name], wanted, faults) for field in self.tables[0][0].fields]


def _interleaved(befores: list[pa.Array], afters: list[pa.Array]) -> list[pa.Array]:
    """Return columns with each row's image before the change right in front of the one after it."""
    count = len(afters[0])
    order = pa.array(np.arange(2 * count).reshape(2, count).T.reshape(-1))
    return [
        pc.take(pa.concat_arrays([before, after]), order, boundscheck=False)
        for before, after in zip(befores, afters, strict=True)
    ]


def kinds_of(columns: MemberColumns, member: int, kinds: Mapping[str, int]) -> RowKinds:
    """Return the row kind of each message by the text of its operation, UNDECIDED if `kinds` does not have it."""
    operation = columns.single(member)
    if operation is not None:
        return np.full(len(columns.rows), kinds.get(operation, UNDECIDED), np.int8)
    encoded = columns.text(member).dictionary_encode(null_encoding="encode")
    by_number = [kinds.get(text or "", UNDECIDED) for text in encoded.dictionary.to_pylist()]
    found: RowKinds = np.array(by_number, np.int8)[np.asarray(encoded.indices)]
    return found


def event_millis(columns: MemberColumns, member: int | None, factor: int) -> Int64s | None:
    """Return event times in milliseconds, -1 if the layout has none; None if one is missing or out of range."""
    if member is None:
        return np.full(len(columns.rows), -1, np.int64)
    integers = columns.integers(member)
    if integers is None or integers.null_count:
        return None
    times = np.asarray(integers)
    return None if (times < 0).any() or (times >= 1 << 53).any() else times * factor


def fewest_rows(options: DecodeOptions) -> int:
    """Return the fewest messages of one layout in a piece for which a layout is worth its cost."""
    return max(1, FEWEST_ROWS * options.bulk_rows // _BULK_ROWS)


def add_by_layout(
    messages: Messages,
    options: DecodeOptions,
    known: KnownLayouts,
    add: AddGroup,
    documents: Sequence[bytes | None] | None = None,
) -> Messages:
    """Add the messages that have layouts, and return the others, for the record path.

    `add` adds the messages of a layout and returns which of them it accepted. `documents` are the JSON texts if these
    are not the values; messages without one are returned.
    """
    texts = messages.values if documents is None else documents
    fewest = fewest_rows(options)
    if len(texts) < fewest:
        return messages
    numbers = np.arange(len(texts))
    # Usually no message is empty, and a list of the others costs as much as a column.
    present = cast(Sequence[bytes], texts) if all(texts) else [text for text in texts if text]
    if len(present) < len(texts):
        numbers = np.flatnonzero([bool(text) for text in texts])
    accepted: Mask = np.zeros(len(texts), bool)
    for group in group_messages(present, known, fewest).groups:
        rows = group.renumbered(numbers)
        accepted[rows.numbers[add(rows)]] = True
    return messages.take(np.flatnonzero(~accepted)) if accepted.any() else messages
