"""Sequence groups of partial-update: columns that are updated unless the sequence of their group decreases.

The state of a group is the greatest sequence so far, so a running maximum decides whether a row wins. A row that resets
the key opens a new segment, in which the maximum starts over. Columns of no group keep the last value that is not null.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.row_kinds import DELETE, RowKinds
from penstock.table.merge.aggregates.function import Inputs
from penstock.table.merge.aggregates.registry import aggregate_column
from penstock.table.merge.engine_rows import EngineRows, dense_ranks, valid_rows
from penstock.table.merge.key_groups import KIND, SEQUENCE
from penstock.table.merge.outcome import MergeOutcome
from penstock.table.merge.spec import MergeSpec, SequenceGroup
from penstock.table.values.buffers import Flags, Ints
from penstock.table.values.sort_keys import sort_keys
from penstock.table.values.types import DataType


def result_kinds(work: EngineRows, adds: Flags, last_removes: Flags) -> RowKinds:
    """Return -D for keys whose last row removes them, and for keys that never had an add; otherwise +I."""
    gone = last_removes | ~np.logical_or.reduceat(adds, work.starts)
    return np.where(gone, DELETE, 0).astype(np.int8)


def plain_picks(spec: MergeSpec, work: EngineRows, counted: Flags, base: Ints, names: list[str]) -> dict[str, Ints]:
    """Return for each column the last counted row with a value.

    NOT NULL columns start from the row `base` of their key.
    """
    required = {field.name for field in spec.fields if not field.type.nullable}
    last_row, last_add = work.ends - 1, work.last(counted)
    last_add_or_base = np.where(last_add < 0, base, last_add)
    picks = {}
    for name in names:
        valid = work.valid(name)
        if name == SEQUENCE:
            picks[name] = last_row
        elif name in required:
            picks[name] = last_add_or_base
        else:
            # Columns without nulls share one array, so that they are fetched together.
            picks[name] = last_add if valid is None else work.last(counted & valid)
    return picks


@dataclass(frozen=True, slots=True)
class Sequences:
    """The sequences of a group as ranks; 0 if all its fields are null: such a row does not change the group."""

    ranks: Ints
    kept: Ints  # for each row: what remains of its sequence if it removes its key, the values of NOT NULL fields


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments in which sequences are compared.

    A segment opens at each key and at each row that removed its key. Such a row (`resets`) does not count itself.
    """

    opens: Flags
    resets: Flags

    def applied(self, sequences: Sequences) -> Flags:
        """Return the rows with a sequence at least as high as in every earlier row of their segment."""
        ranks = np.where(self.resets, sequences.kept, sequences.ranks)
        # The segment is the high part of the code, so codes of a later segment exceed all earlier ones, and one
        # running maximum over all rows starts over in each segment.
        code = np.cumsum(self.opens) * (int(ranks.max(initial=0)) + 1) + ranks
        return np.asarray((ranks > 0) & (code == np.maximum.accumulate(code)) & ~self.resets)


@dataclass(frozen=True, slots=True)
class Since:
    """The rows of each key after its last reset."""

    base: Ints  # for each key: the row it starts from
    counted: Flags
    inits: Ints  # for each key: the row that NOT NULL columns start from, -1 if it is an add


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows after the last reset of their key whose sequence in a group is set: applied ones, and late ones."""

    group: SequenceGroup
    ranks: Ints
    applied: Flags
    late: Flags

    @classmethod
    def of(cls, group: SequenceGroup, ranks: Ints, applied: Flags, counted: Flags) -> GroupRows:
        applied = applied & counted
        return cls(group, ranks, applied, (ranks > 0) & ~applied & counted)


def merge_sequence_groups(spec: MergeSpec, work: EngineRows) -> MergeOutcome:
    """Merge rows of a table with sequence groups."""
    present = [group for group in spec.groups if set(group.fields) <= set(work.table.column_names)]
    sequences = [_sequences(spec, work, group) for group in present]
    segments = _segments(work, [s for s, group in zip(sequences, present, strict=True) if group.removes])
    since = _since(work, segments)
    adds = ~work.retract
    merged = MergeOutcome(result_kinds(work, adds, segments.resets[work.ends - 1]))
    grouped = {name for group in spec.groups for name in (*group.fields, *group.columns)}
    names = [name for name in work.table.column_names if name not in grouped and name != KIND]
    merged.picks.update(plain_picks(spec, work, adds & since.counted, since.base, names))
    for group, own in zip(present, sequences, strict=True):
        rows = GroupRows.of(group, own.ranks, segments.applied(own), since.counted)
        _merge_group(spec, work, rows, since, merged)
    return merged


def _sequences(spec: MergeSpec, work: EngineRows, group: SequenceGroup) -> Sequences:
    columns, types = [work.values(name) for name in group.fields], [spec.type_of(name) for name in group.fields]
    nullable = [type_.nullable for type_ in types]
    kept = [pa.nulls(work.size, c.type) if null else c for c, null in zip(columns, nullable, strict=True)]
    if all(nullable) or not any(nullable):
        ranks = _ranks(columns, types)
        return Sequences(ranks, np.zeros_like(ranks) if all(nullable) else ranks)
    both = _ranks([pa.concat_arrays(list(pair)) for pair in zip(columns, kept, strict=True)], types)
    return Sequences(both[: work.size], both[work.size :])


def _ranks(columns: list[pa.Array], types: list[DataType]) -> Ints:
    has_value = np.logical_or.reduce([valid_rows(column) for column in columns])
    return np.where(has_value, dense_ranks(sort_keys(columns, types)) + 1, 0)


def _segments(work: EngineRows, removing: list[Sequences]) -> Segments:
    """Return the segments of all keys.

    Every round finds the first reset of each segment, which opens the next one. The number of rounds is the largest
    number of resets of a key.
    """
    opens, resets = np.zeros(work.size, np.bool_), np.zeros(work.size, np.bool_)
    opens[work.starts] = True
    deletes = work.kinds == DELETE
    while removing and deletes.any():
        segments = Segments(opens, resets)
        found = np.flatnonzero(deletes & np.logical_or.reduce([segments.applied(sequences) for sequences in removing]))
        if len(found) == 0:
            break
        # The running sum numbers the segments. `found` ascends, so the first index of each number is the segment's
        # first reset.
        first = found[np.unique(np.cumsum(opens)[found], return_index=True)[1]]
        opens, resets = opens.copy(), resets.copy()
        opens[first] = resets[first] = True
    return Segments(opens, resets)


def _since(work: EngineRows, segments: Segments) -> Since:
    base = work.last(segments.opens)
    starts_with_retract = segments.resets[base] | work.retract[work.starts]
    counted = np.arange(work.size) >= work.per_row(base)
    return Since(base, counted & ~segments.resets, np.where(starts_with_retract, base, -1))


def _merge_group(spec: MergeSpec, work: EngineRows, rows: GroupRows, since: Since, merged: MergeOutcome) -> None:
    last = work.last(rows.applied)
    # Position -1 reads an arbitrary row, but the result is -1 for every row. A retract moves the sequence of its group
    # forward and leaves the other columns null, as in Java.
    plain = np.where(work.retract[last], -1, last)
    for name in rows.group.fields:
        merged.picks[name] = last if spec.type_of(name).nullable else np.where(last < 0, since.inits, last)
    for name in rows.group.columns:
        if name not in work.table.column_names:
            continue
        if name in spec.aggregates:
            merged.put(name, aggregate_column(_inputs(spec, work, name, rows, since)))
        else:
            required = not spec.type_of(name).nullable
            merged.picks[name] = np.where(last < 0, since.inits, plain) if required else plain


def _inputs(spec: MergeSpec, work: EngineRows, name: str, rows: GroupRows, since: Since) -> Inputs:
    moved = rows.applied | rows.late
    required = not spec.type_of(name).nullable
    return Inputs(
        work,
        name,
        spec.type_of(name),
        spec.aggregates[name],
        adds=moved & ~work.retract,
        retracts=moved & work.retract,
        late=rows.late,
        forgotten=~work.retract & (rows.ranks > 0) & (np.arange(work.size) < work.per_row(since.base)),
        restart=since.inits if required else None,
    )
