"""The result of a merge as row numbers of the input; rows are fetched only once it is known which keys are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.row_kinds import RowKinds, is_retract
from penstock.table.merge.engine_rows import EngineRows
from penstock.table.merge.key_groups import KIND, KeyGroups
from penstock.table.values.buffers import Flags, Ints, rows_at


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """The result of a merge engine for the keys in `EngineRows`: one position per key (-1: null), or new values.

    Columns in neither `picks` nor `made` come from the key's last row.
    """

    kinds: RowKinds
    picks: dict[str, Ints] = field(default_factory=dict)
    made: dict[str, pa.Array] = field(default_factory=dict)

    def put(self, name: str, result: Ints | pa.Array) -> None:
        """Add the result of a column: one position per key, or one value per key."""
        if isinstance(result, pa.Array):
            self.made[name] = result
        else:
            self.picks[name] = result


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row per group, in key order. `winners` are the row numbers of the last row of each key."""

    groups: KeyGroups
    winners: Ints
    kinds: RowKinds
    work: EngineRows | None = None
    merged: MergeOutcome | None = None

    @classmethod
    def of(
        cls, groups: KeyGroups, winners: Ints, work: EngineRows | None = None, merged: MergeOutcome | None = None
    ) -> Outcome:
        """Return the outcome with the kinds of the winners, or of the merged rows."""
        # Indexing with an array copies, so the kinds of the input rows are not changed below.
        kinds = groups.kinds[winners]
        if work is not None and merged is not None:
            kinds[work.keys] = merged.kinds
        return cls(groups, winners, kinds, work, merged)

    @classmethod
    def by_column(cls, groups: KeyGroups, chosen: Flags, merge: Callable[[EngineRows], MergeOutcome]) -> Outcome:
        """Return the outcome of an engine that merges the rows of the chosen keys column by column."""
        winners = groups.order[groups.ends - 1]
        if not chosen.any():
            return cls.of(groups, winners)
        work = EngineRows.of(groups, chosen)
        return cls.of(groups, winners, work, merge(work))

    @property
    def visible(self) -> Flags:
        """Return which keys have a +I or +U row."""
        return ~is_retract(self.kinds)

    def table(self, keep: Flags | None = None) -> pa.Table:
        """Return the rows of the keys that are kept, with all input columns."""
        rows = self.groups.rows
        if keep is not None and keep.all():
            keep = None
        chosen = self.winners if keep is None else self.winners[keep]
        special = self._columns(keep)
        if KIND in rows.column_names:
            special[KIND] = pa.chunked_array([pa.array(self.kinds if keep is None else self.kinds[keep], pa.int8())])
        plain = rows_at(rows.select([name for name in rows.column_names if name not in special]), chosen)
        columns = [special[name] if name in special else plain.column(name) for name in rows.column_names]
        return pa.table(columns, schema=rows.schema)

    def unordered(self, keep: Flags | None = None) -> pa.Table:
        """Return the rows of `table` in no order: unchanged rows keep their place, merged rows follow."""
        wanted = np.ones(len(self.winners), np.bool_) if keep is None else keep.copy()
        made = np.zeros(len(self.winners), np.bool_)
        if self.work is not None:
            made[self.work.keys] = wanted[self.work.keys]
        # Rows that the engine left unchanged are only filtered where they are. A gather in key order would copy
        # every column.
        stays = np.zeros(len(self.groups.rows), np.bool_)
        stays[self.winners[wanted & ~made]] = True
        parts = [_masked(self.groups.rows, stays)]
        return pa.concat_tables([*parts, self.table(made)] if made.any() else parts)

    def _columns(self, keep: Flags | None) -> dict[str, pa.ChunkedArray]:
        if self.work is None or self.merged is None:
            return {}
        columns: dict[str, pa.ChunkedArray] = {}
        for names, places in self._shared_picks():
            taken = self._picked(names, places, self.work, keep)
            columns.update(zip(names, taken.columns, strict=True))
        for name, values in self.merged.made.items():
            columns[name] = self._made(name, values, self.work, keep)
        return columns

    def _shared_picks(self) -> list[tuple[list[str], Ints]]:
        """Return the columns grouped by their positions: columns with the same positions are fetched together."""
        shared: dict[int, tuple[list[str], Ints]] = {}
        for name, places in self.merged.picks.items() if self.merged else ():
            # By identity, which costs nothing: engines return one array object for columns with the same positions.
            # `picks` keeps the arrays alive, so that an identity is not reused.
            shared.setdefault(id(places), ([], places))[0].append(name)
        return list(shared.values())

    def _picked(self, names: list[str], places: Ints, work: EngineRows, keep: Flags | None) -> pa.Table:
        chosen = self.winners.copy()
        # Position -1 reads an arbitrary row number, which -1 then replaces.
        chosen[work.keys] = np.where(places < 0, -1, work.rows[places])
        chosen = chosen if keep is None else chosen[keep]
        missing = chosen < 0
        indices = pa.array(chosen, mask=missing) if missing.any() else pa.array(chosen)
        return self.groups.rows.select(names).take(indices)

    def _made(self, name: str, values: pa.Array, work: EngineRows, keep: Flags | None) -> pa.ChunkedArray:
        # The computed values are appended to the input column as one more chunk; a single take then fetches both.
        column = self.groups.rows.column(name)
        chosen = self.winners.copy()
        chosen[work.keys] = len(column) + np.arange(len(work.keys))
        both = pa.chunked_array([*column.chunks, values], type=column.type)
        return both.take(pa.array(chosen if keep is None else chosen[keep]))


def _masked(rows: pa.Table, stays: Flags) -> pa.Table:
    """Return the rows in the mask; batches that are kept whole are not copied."""
    batches, start = [], 0
    for batch in rows.to_batches():
        mask = stays[start : start + batch.num_rows]
        start += batch.num_rows
        if mask.any():
            batches.append(batch if mask.all() else batch.filter(pa.array(mask)))
    return pa.Table.from_batches(batches, rows.schema)
