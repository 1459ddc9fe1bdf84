"""The identity of a batch: who commits it, whether it was committed before, and how far the tables of a pipeline are.

The tables' own snapshots answer this, which makes batches exactly-once, and lets a new checkpoint begin where they end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from penstock.ingest.source import Offsets, canonical
from penstock.pipelines.errors import CheckpointMismatch, ReplayUndecidable
from penstock.schema_evolution.row_versions import keeps_versions
from penstock.table.lookup.matches import LOOKUP
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.meta.snapshot import PARKED, PIPELINE, TABLES, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.schema.table_schema import TableSchema

# Properties of snapshots. START and END are canonical JSON of offsets, so that ranges are compared as texts.
START = "penstock.start"
NOW = "now"  # among the source's offsets: when the batch was planned, in epoch milliseconds
END = "penstock.end"
LOOKUPS = "lookups"  # among the source's offsets: the snapshot of each dimension, by its name
LOOKUP_MARKS = "lookup_marks"  # the marks of these snapshots: an id is used again after a rollback
LOOKED_AT = 50  # snapshots per table searched for the pipeline's own: with other writers a table may have thousands
NEWEST = "penstock.newest"  # the newest event time of the table's rows so far, in milliseconds


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """`checkpoint` is the UUID that Spark gave the checkpoint. A copied checkpoint has the same UUID."""

    pipeline: str
    checkpoint: str
    number: int
    start: Offsets
    end: Offsets
    newest: Mapping[str, int] = field(default_factory=dict)  # by table, milliseconds
    tables: int = 0  # how many tables the batch changes; 0 if it is not known
    lookups: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # first and last snapshot by dimension
    parked: tuple[str, ...] = ()  # the tables that lack the batch

    @property
    def user(self) -> str:
        return f"{self.pipeline}-{self.checkpoint}"

    @property
    def properties(self) -> dict[str, str]:
        return {PIPELINE: self.pipeline, START: canonical(self.start), END: canonical(self.end)}

    def properties_of(self, table: str) -> dict[str, str]:
        """Return the snapshot properties for this table: the common ones plus its newest event time."""
        newest = self.newest.get(table, -1)
        # Negative values are not known, and are left out.
        known = {NEWEST: newest, TABLES: self.tables or -1}
        looked_up = {
            f"{LOOKUP}{name}": f"{first}" if first == last else f"{first}-{last}"
            for name, (first, last) in self.lookups.items()
        }
        parked = {PARKED: json.dumps(self.parked)} if self.parked else {}
        return self.properties | {name: str(value) for name, value in known.items() if value >= 0} | looked_up | parked

    @property
    def planned_at(self) -> int:
        return int(self.end.get(NOW, 0))

    def is_in(self, snapshot: Snapshot | None, table: str) -> bool:
        """Return whether the snapshot is this very batch.

        It must be the newest that this user made for this batch or a later one. Raise CheckpointMismatch if it has
        another number or another range of the source than this batch.
        """
        if snapshot is None:
            return False
        if snapshot.commit_identifier != self.number or _range(snapshot.properties) != _range(self.properties):
            raise CheckpointMismatch(
                "the table has a batch of this number from another part of the source: the checkpoint was rewound,"
                " copied or is used twice",
                table=table,
                snapshot=snapshot.id,
                batch_in_table=snapshot.commit_identifier,
                range_in_table=" to ".join(_range(snapshot.properties)),
                batch=self.number,
                range=" to ".join(_range(self.properties)),
                hint="stop the other job, or start with a new checkpoint and  --accept-replay",
            )
        return True


def planned_lookups(end: Offsets) -> dict[str, tuple[int, int]]:
    """Return the snapshot of each dimension that a batch looks up in, with its mark; 0 if an older release planned."""
    marks = end.get(LOOKUP_MARKS, {})
    return {name: (snapshot, marks.get(name, 0)) for name, snapshot in end.get(LOOKUPS, {}).items()}


def _range(properties: Mapping[str, str]) -> tuple[str, str]:
    return properties.get(START, "?"), properties.get(END, "?")


def range_of(snapshot: Snapshot) -> tuple[Offsets, Offsets]:
    """Return the offsets at which the batch of a pipeline's snapshot begins and ends."""
    start, end = _range(snapshot.properties)
    return json.loads(start), json.loads(end)


def last_of_pipeline(store: TableStore, pipeline: str, most: int | None = None) -> Snapshot | None:
    """Return the newest snapshot of any run of the pipeline, with any checkpoint.

    Only the `most` newest snapshots are searched.
    """
    newest = islice(store.snapshots.newest_first(), most)
    return next((snapshot for snapshot in newest if snapshot.properties.get(PIPELINE) == pipeline), None)


def was_committed_before(
    store: TableStore, identity: BatchIdentity, *, follows: Collection[str] = (), accept_replay: bool = False
) -> bool:
    """Return whether another checkpoint of the pipeline already committed this very batch to the table.

    A table that another checkpoint wrote is not written to silently, since rows could be applied twice: raise
    CheckpointMismatch unless that checkpoint is among those this one `follows`. Raise ReplayUndecidable if the
    snapshots that could prove it have expired.
    """
    last = last_of_pipeline(store, identity.pipeline)
    if last is None:
        if not accept_replay:
            _check_proof(store, identity)
        return False
    # Batches of this checkpoint are compared by their numbers, see `BatchIdentity.is_in`.
    if last.commit_user == identity.user:
        return False
    # The first batch of a new checkpoint repeats the last one of the old, as `LastBatch` plans it.
    if _range(last.properties) == _range(identity.properties):
        return True
    if accept_replay or last.commit_user in follows:
        return False
    raise another_checkpoint(store.name, last)


def another_checkpoint(table: str, last: Snapshot) -> CheckpointMismatch:
    return CheckpointMismatch(
        "the table was written by this pipeline with another checkpoint",
        table=table,
        snapshot=last.id,
        reached=last.properties.get(END),
        hint="continue with the old checkpoint;  --resume-from-tables  starts a new one at the position of the tables"
        " (not from files, MySQL or MariaDB),  --accept-replay  reads changes again that the tables may contain",
    )


def _check_proof(store: TableStore, identity: BatchIdentity) -> None:
    """Raise ReplayUndecidable when expired snapshots leave it open whether the batch was committed.

    The table has no snapshot of the pipeline. A commit of this batch would be younger than its plan, so if all
    snapshots since then exist, there was no commit.
    """
    first = store.snapshots.earliest_id()
    earliest = None if first is None else store.snapshots.find(first)
    # Nothing has expired if snapshot 1 exists, and nothing since the plan if the earliest snapshot is older than
    # the plan.
    if earliest is None or earliest.id == 1 or earliest.time_millis <= identity.planned_at or not identity.planned_at:
        return
    if not shows_replay(store.schema()):
        return
    raise ReplayUndecidable(
        "the snapshot that shows whether the table contains this batch has expired",
        table=store.name,
        batch=identity.number,
        earliest_snapshot=earliest.id,
        hint="compare the table with its source; then  --accept-replay  writes the batch, perhaps a second time",
    )


def adds_repeated_rows(table: TableSchema) -> bool:
    """Return whether a row that is written twice is added twice: as a second row, or to an aggregate."""
    return not (table.primary_keys and merge_engine(table.typed).forgives_replay)


def shows_replay(table: TableSchema) -> bool:
    """Return whether a change that is applied twice is visible in the table or in its changelog.

    With deduplicate the last row per key wins, so it is not, but a changelog contains the repetition, and a history the
    versions between the first time and the second.
    """
    return adds_repeated_rows(table) or keeps_versions(table) or table.typed[CHANGELOG_PRODUCER].writes_changelog
