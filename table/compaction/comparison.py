"""The comparison of each key with its previous row during a compaction: merged rows, changes and replaced rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.table.compaction.changelog import diff, lowest_rows, row_levels
from penstock.table.compaction.lookup import Hits, Lookup, Vectors
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.merge.bounded_merge import Step
from penstock.table.merge.engines.first_row import first_rows
from penstock.table.merge.incoming_kinds import kept_rows
from penstock.table.merge.key_groups import (
    KeyGroups,
    concat_parts,
    group_rows,
    kinds_of,
    whole,
    with_older_rows,
)
from penstock.table.merge.merge_rows import merge_groups
from penstock.table.merge.outcome import Outcome
from penstock.table.merge.sorted_runs import Levels
from penstock.table.values.buffers import MOST_BYTES, Flags, Ints, rows_at


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """The result of a step: `rows` has one row per key, including -D rows.

    `hits` are rows of other files that `rows` replaces.
    """

    rows: pa.Table
    changes: pa.Table | None = None
    hits: Hits | None = None


@dataclass(frozen=True, slots=True)
class RowComparison:
    """The comparison of the keys of a compaction to `level` with their previous rows."""

    spec: CompactionSpec
    levels: Levels  # the levels of the whole bucket
    level: int
    lookup: Lookup | None
    vectors: Vectors

    def step(self, step: Step) -> ComparedRows:
        """Merge a step and compare its keys with their previous rows."""
        if not self.spec.looks_up:
            return self._with_shown_rows(step)
        if self.spec.merge.engine.oldest_wins:
            return self._first_rows(step)
        return self._with_upper_levels(step)

    def _grouped(self, step: Step) -> tuple[KeyGroups, Ints]:
        """Return the rows of the step grouped by key, and the level of each row."""
        rows, levels = concat_parts(self.spec.merge, step.parts), row_levels(step.parts, step.levels)
        kept = kept_rows(self.spec.merge, kinds_of(rows)) if self.spec.merge.ignore_delete else None
        if kept is not None:
            rows, levels = rows.filter(pa.array(kept)), levels[kept]
        return group_rows(self.spec.merge, rows), levels

    def _with_shown_rows(self, step: Step) -> ComparedRows:
        """Compare for the changelog of full compactions: readers of the changelog know the rows of one level."""
        shown = self.levels.shown_level
        # Readers of the changelog know these rows, and nothing changes them.
        if step.levels == (shown,):
            return ComparedRows(step.parts[0])
        groups, levels = self._grouped(step)
        outcome = merge_groups(self.spec.merge, groups, levels=levels if self.spec.merge.lookup else None)
        merged = outcome.table()
        # Rows of the levels between have never been in the changelog. As level 0 they are not taken for the old
        # row.
        old = lowest_rows(groups, np.where(levels == shown, levels, 0))
        changed = (groups.counts > 1) | (old < 0)
        return ComparedRows(merged, self._diff(outcome, merged, old, changed))

    def _with_upper_levels(self, step: Step) -> ComparedRows:
        """Compare level-0 rows with the row that readers see, which may be on any upper level."""
        spec = self.spec.merge
        # Rows of an upper level were compared when a compaction moved them there.
        if spec.engine.newest_wins and len(step.levels) == 1 and step.levels[0] > 0:
            return ComparedRows(step.parts[0])
        groups, levels = self._grouped(step)
        # Only keys with a row on level 0 can differ from what the changelog already contains.
        fresh = _any_of(groups, levels == 0)
        old = lowest_rows(groups, levels)
        several = bool(levels.any())  # otherwise each key has one row of an upper level at most, which is looked up
        hits = self._look_up(groups, old < 0, with_rows=self._needs_old_rows)
        if hits is not None and hits.rows is not None and len(hits.rows):
            # Rows that were looked up are older than all rows of the step: they come first, as of the highest level.
            rows = concat_parts(spec, [hits.rows.select(groups.rows.column_names), groups.rows])
            # Joined once: each of the two fetches below would otherwise join the chunks of every column. Larger tables
            # are not joined, because they would be in memory twice.
            rows = rows.combine_chunks() if rows.nbytes <= MOST_BYTES else rows
            levels = np.append(np.full(len(hits.rows), self.levels.max_level), levels)
            groups = with_older_rows(spec, groups, rows, hits.probes)
            old = np.where(old < 0, -1, old + len(hits.rows))
            old[hits.probes] = np.arange(len(hits.rows))
        # In Java's merge for lookups, the engine processes a key with a single row too; a lone -D of an aggregated
        # key results in negated values.
        outcome = merge_groups(spec, groups, bypass=False, levels=levels if several else None)
        merged = outcome.table()
        changes = self._diff(outcome, merged, old, fresh) if self.spec.changelog.producer.by_lookup else None
        return ComparedRows(merged, changes, hits)

    @property
    def _needs_old_rows(self) -> bool:
        return self.spec.changelog.producer.by_lookup or not self.spec.merge.last_arrival_wins

    def _first_rows(self, step: Step) -> ComparedRows:
        groups, levels = self._grouped(step)
        # A key with a row on an upper level inside the compaction is known; only the others are searched in the
        # levels above.
        fresh = ~_any_of(groups, levels > 0)
        hits = self._look_up(groups, fresh, with_rows=False)
        stays = np.ones(len(groups.starts), np.bool_)
        if hits is not None:
            stays[hits.probes] = False
        chosen = first_rows(groups, np.ones(len(groups.starts), np.bool_))
        rows = rows_at(groups.rows, chosen[stays])
        # A first row is written to the changelog with its original kind, even if that is +U.
        new = rows_at(groups.rows, chosen[stays & fresh]) if self.spec.changelog.producer.by_lookup else None
        return ComparedRows(rows, new)

    def _look_up(self, groups: KeyGroups, wanted: Flags, *, with_rows: bool) -> Hits | None:
        """Return the rows of the wanted keys in the levels above; `probes` are group numbers."""
        if self.lookup is None or not wanted.any() or not any(self.levels.upper[self.level :]):
            return None
        numbers = np.flatnonzero(wanted)
        keys = groups.rows.select(list(self.spec.merge.keys)).take(pa.array(groups.order[groups.starts[numbers]]))
        probes: Sequence[pa.Array] = [whole(column) for column in keys.columns]
        hits = self.lookup.find(self.levels, self.level, probes, vectors=self.vectors, with_rows=with_rows)
        return Hits(numbers[hits.probes], hits.files, hits.file_of, hits.positions, hits.rows)

    def _diff(self, outcome: Outcome, merged: pa.Table, old: Ints, chosen: Flags) -> pa.Table:
        before = outcome.groups.rows
        # If the engine made no new rows, the merged rows are among the rows before: all are then fetched from one
        # table, without a copy of the merged rows.
        after, new = (before, outcome.winners) if outcome.work is None else (merged, np.arange(len(merged)))
        return diff(self.spec.merge, self.spec.changelog, before, after, old[chosen], new[chosen])


def _any_of(groups: KeyGroups, mask: Flags) -> Flags:
    """Return which keys have a row in the mask, which is by row."""
    if mask.all():
        return np.ones(len(groups.starts), np.bool_)
    return np.logical_or.reduceat(mask[groups.order], groups.starts)
