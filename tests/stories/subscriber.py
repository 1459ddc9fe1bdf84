"""A reader of a table's changes with a consumer id: it must get each change once, whatever happens to the table.

The reader starts again at each step. If it stopped in the middle of a snapshot, the next one gets this snapshot again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.table.errors import SnapshotMissing, SnapshotReplaced
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind, Snapshot
from tests.golden.relations import Cells, Relation, canonical_of, counted, relation_of
from tests.invariants.reads import FOLDABLE, KIND_COLUMN, Row, fold, foldable, is_settled, left_out
from tests.simulation.story import Step
from tests.stories.shelf import Line

NAME = "subscriber"


@dataclass
class Subscriber:
    """What the reader has got. `next` is the snapshot that it reads next, None before its first one."""

    next: int | None = None
    # The rows of the table by the changes up to each snapshot; None if the changes do not show them.
    states: dict[int, dict[Row, Row] | None] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    may_be_lost: bool = False  # changes, by a fast-forward to a branch that begins after the place of the reader

    def rolled_back(self, target: int) -> None:
        if self.next is not None:
            self.next = min(self.next, target + 1)
            self.states = {number: rows for number, rows in self.states.items() if number <= target}

    def fast_forwarded(self, table: Table) -> None:
        """Take over the place that the consumer was set back to."""
        if self.next is not None:
            place = table.consumers[NAME]
            assert place <= self.next, f"a fast-forward moves the consumer from {self.next} to {place}"
            self.rolled_back(place - 1)
            self.may_be_lost = True

    def read(self, table: Table, line: Line, step: Step) -> None:
        """Read up to the newest snapshot, or as many snapshots with changes as the step says."""
        latest = table.latest_snapshot
        assert latest is not None
        begin = self.next or table.store.snapshots.earliest_id() or 1
        self.next, got = begin, dict[int, pa.Table]()
        try:
            for changes in table.follow(consumer_id=NAME, until=latest.id):
                if len(got) == step["most"]:
                    self.next = changes.snapshot  # this snapshot was begun, and not done
                    break
                got[changes.snapshot] = changes.rows
            else:
                self.next = max(begin, latest.id + 1)
        except (SnapshotMissing, SnapshotReplaced):
            assert self.may_be_lost
            table.reset_consumer(NAME)
            self.next, self.states, self.may_be_lost = None, {}, False
            return
        self.may_be_lost = False
        assert table.consumers[NAME] == self.next, f"the consumer is at {table.consumers[NAME]}, not at {self.next}"
        assert list(got) == sorted(got), f"snapshots {list(got)} come out of order"
        assert all(begin <= number < self.next for number in got), f"{list(got)} are not in {begin} to {self.next - 1}"
        self._check(table, line, begin, got)

    def _check(self, table: Table, line: Line, begin: int, got: dict[int, pa.Table]) -> None:
        assert self.next is not None
        if self.columns != line.now.names:
            self.columns, self.states = list(line.now.names), {}
        for number in range(begin, self.next):
            snapshot = table.store.snapshots.get(number)
            rows = got.get(number)
            if not table.primary_keys:
                _check_appended(table, line, snapshot, rows)
            else:
                self._check_folded(table, line, snapshot, rows)

    def _check_folded(self, table: Table, line: Line, snapshot: Snapshot, rows: pa.Table | None) -> None:
        """Compare the rows of the changes so far with those of the model, where the changelog has all changes."""
        producer = table.options.get("changelog-producer", "none")
        if producer not in FOLDABLE or not foldable(table, producer):
            return
        known = self.states.get(snapshot.id - 1, {} if snapshot.id == 1 else None)
        state = None if known is None or snapshot.commit_kind is CommitKind.OVERWRITE else dict(known)
        if state is not None and rows is not None:
            wrong = list(fold(state, table, rows, snapshot, strict=producer != "input"))
            assert not wrong, f"changes read: {wrong[0]}"
        visible = line.visible.get(snapshot.id)
        if is_settled(table, snapshot, producer):
            right = None if visible is None or list(visible.columns) != line.now.names else _by_key(table, visible)
            if state is not None and right is not None:
                differing = [key for key in state.keys() | right.keys() if state.get(key) != right.get(key)]
                assert not differing, f"changes up to {snapshot.id} lead to other rows of the keys {differing[:3]}"
            state = right
        self.states[snapshot.id] = state


def _by_key(table: Table, relation: Relation) -> dict[Row, Row]:
    """Return the rows of the model by key, as `keyed` returns those of changes."""
    canon = [canonical_of(kind) for kind in relation.types]
    places = [relation.columns.index(name) for name in table.primary_keys]
    kept = [name in table.primary_keys or name not in left_out(table) for name in relation.columns]
    found = {}
    for row in relation.rows:
        cells = tuple(of(value) if keep else None for of, value, keep in zip(canon, row, kept, strict=True))
        found[tuple(cells[place] for place in places)] = cells
    return found


def _check_appended(table: Table, line: Line, snapshot: Snapshot, rows: pa.Table | None) -> None:
    """Compare the new rows of a table without a key: those that the model has, and had not before."""
    before, after = (line.visible.get(number) for number in (snapshot.id - 1, snapshot.id))
    if after is None or list(after.columns) != line.now.names:
        return
    if snapshot.commit_kind is CommitKind.OVERWRITE or snapshot.commit_kind is CommitKind.COMPACT:
        assert rows is None, f"snapshot {snapshot.id} has no changes for a stream, and {rows} were read"
        return
    if snapshot.id > 1 and (before is None or before.columns != after.columns):
        return
    types = dict(zip(after.columns, after.types, strict=True))
    found = Counter[Cells]() if rows is None else _counted(relation_of(rows, types, kind_column=KIND_COLUMN))
    written = _counted(after) - (Counter() if before is None else _counted(before))
    assert found == written, f"snapshot {snapshot.id}: read {list(found)}, written {list(written)}"


def _counted(relation: Relation) -> Counter[Cells]:
    return counted(relation, relation, with_kinds=False)
