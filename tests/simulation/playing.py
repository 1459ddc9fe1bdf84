"""Plays a story on a disk with faults, beside a dict with the expected rows.

Each step is repeated until it is done: a process that dies is replaced by a new one, a failure is tried again, and the
commit identifier of a write stays the same. At the end the table must satisfy every invariant, and every snapshot must
have the rows that the model had.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any

from penstock.errors import CommitConflict, ConfigError
from penstock.storage.environment import Environment
from penstock.table.buckets.layout import Layout
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.operations.executor import OwnProcess
from penstock.table.read.splits import invisible_level_0
from tests.golden.relations import Relation
from tests.invariants import check_invariants
from tests.orphans import remove_orphans
from tests.simulation.model import Model, Row
from tests.simulation.store import Died, Disk, Faults, Operation, SimStore, never
from tests.simulation.story import Step, Story
from tests.simulation.tellers import Ours, create_ours

PATH = "/warehouse/db.db/t"
ATTEMPTS = 12
LONG_AFTER = 10 * 86_400_000


class Play:
    """A performance of a story. `log` has every operation of every process, in order."""

    def __init__(self, story: Story, faults: Faults = never) -> None:
        self.story, self.disk = story, Disk()
        self.log: list[Operation] = []
        self.history: dict[int, Relation] = {}
        self._faults, self._processes = faults, 0
        self._rows_at: dict[int, list[Row]] = {}
        self._model = Model(story.columns, story.primary_keys, story.options)
        create_ours(story, SimStore(self.disk), PATH, self._ambient())
        self._store = self._new_process()

    def run(self) -> Play:
        for number, step in enumerate(self.story.steps, 1):
            self._tell(step, number)
            self._learn(step)
        self.disk.settle()
        # Orphans are removed first: what is wrong in the table remains so, and a removed file that it needs is missed.
        remove_orphans(self._sound_store(None), self.disk.clock() + LONG_AFTER, OwnProcess())
        self.check()
        return self

    def check(self) -> None:
        table = Table(self._sound_store(None))
        latest = table.latest_snapshot
        assert latest is None or latest.id in self.history, f"nobody wrote snapshot {latest}"
        check_invariants(table, model=self.history)

    # Performing a step -----------------------------------------------------------------------------------------

    def _tell(self, step: Step, number: int) -> None:
        failed: BaseException | None = None
        for attempt in range(ATTEMPTS):
            # A failure may be reported for a step that took effect. Repeating a tag or a rollback would then be
            # refused.
            if attempt and self._is_done(step):
                return
            try:
                Ours(self._open).tell(step, number)
            except Died as death:
                failed, self._store = death, self._new_process()
            except (OSError, CommitConflict, TableMissing) as failure:
                # A stale listing can hide the table, which is then reported missing: nothing was done.
                failed = failure
            except ConfigError as refusal:
                # The refusal may follow from a failed attempt that took effect; `_is_done` checks that.
                if failed is None:
                    raise
                failed = refusal
            else:
                return
        raise AssertionError(f"{step} failed {ATTEMPTS} times") from failed

    def _is_done(self, step: Step) -> bool:
        """Return whether a step that cannot be repeated took effect although it failed.

        Writes are recognized by identifier.
        """
        table = Table(self._sound_store(None))
        match step["op"]:
            case "tag":
                return step["name"] in table.tags
            case "alter":
                return all(change["name"] in table.definition.names for change in step["changes"])
            case "rollback":
                latest = table.latest_snapshot
                return latest is not None and latest.id == step["snapshot"]
        return False

    def _open(self, branch: str | None) -> TableStore:
        return TableStore.open(self._store, PATH, branch, self._ambient())

    def _sound_store(self, branch: str | None) -> TableStore:
        """Open the table without faults."""
        return TableStore.open(SimStore(self.disk), PATH, branch, self._ambient())

    def _new_process(self) -> SimStore:
        self._processes += 1
        return SimStore(self.disk, self._faults, self.story.seed, self.log)

    def _ambient(self) -> Environment:
        draw = random.Random(f"{self.story.seed} {self._processes} {len(self.log)}")
        return Environment(
            now_millis=self.disk.clock,
            elapsed_millis=self.disk.clock,
            zone_offset_millis=lambda _: 0,
            new_uuid=lambda: str(uuid.UUID(int=draw.getrandbits(128), version=4)),
            sleep=lambda seconds: self.disk.clock.pass_(int(seconds * 1000)),
            jitter=draw.random,
        )

    # Updates of the model --------------------------------------------------------------------------------------

    def _learn(self, step: Step) -> None:
        match step["op"]:
            case "write":
                self._model.apply(step["rows"])
            case "alter":
                for change in step["changes"]:
                    self._model.add_column(change["name"], change["type"])
            case "rollback":
                self._roll_back(step)
        table = Table(self._sound_store(None))
        for snapshot in table.snapshots:
            if snapshot.id not in self._rows_at:
                self._rows_at[snapshot.id] = [list(row) for row in self._model.rows.values()]
                assert snapshot.commit_kind in {CommitKind.APPEND, CommitKind.COMPACT}
                if is_visible(table, snapshot):
                    self.history[snapshot.id] = self._model.relation()

    def _roll_back(self, step: Mapping[str, Any]) -> None:
        target, width = step["snapshot"], len(self._model.columns)
        self.history = {number: rows for number, rows in self.history.items() if number <= target}
        self._rows_at = {number: rows for number, rows in self._rows_at.items() if number <= target}
        # The schema is not rolled back: columns that were added since are null in the older rows.
        rows = [row + [None] * (width - len(row)) for row in self._rows_at[target]]
        self._model.rows = {self._model.key_of(row): row for row in rows}


def is_visible(table: Table, snapshot: Snapshot) -> bool:
    """Return whether readers see everything written: some tables hide level 0 until it is compacted."""
    if not invisible_level_0(Layout.of(table.definition)):
        return True
    return all(entry.file.level for entry in live_entries(table.store, snapshot))
