"""The start of a streaming read of a table: the snapshot whose rows it reads first, and the first changes after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotReplaced
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.scans import CONSUMER_ID, CONSUMER_IGNORE_PROGRESS
from penstock.table.options.table_options import TableOptions
from penstock.table.read.plan import KeptLevels
from penstock.table.read.time_travel import Travel, resolve
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a stream.

    It reads the rows of snapshot `state` (0: no rows), then the changes of snapshot `first` and all later ones.
    """

    state: int
    first: int


def consumer_files(store: TableStore) -> ConsumerFiles:
    """Return the consumers of the table, or of its branch."""
    return ConsumerFiles(store.storage, store.paths.root, store.paths.branch)


def kept_position(store: TableStore, consumer: str) -> int | None:
    """Return the snapshot that a consumer reads next, None for an unknown one.

    SnapshotReplaced if the snapshot before it is not the one that was read: a rollback sets consumers back, but a
    reader may write its position after that.
    """
    position = consumer_files(store).position(consumer)
    if position is None:
        return None
    read = store.snapshots.find(position.next_snapshot - 1) if position.mark else None
    if read is not None and not read.has_mark(position.mark):
        raise SnapshotReplaced(
            f"snapshot {read.id} was replaced after the consumer {consumer} had read it: the table was rolled back, or"
            " dropped and created again",
            table=store.name,
            hint="reset the consumer to the first snapshot after the rollback, or delete it",
        )
    return position.next_snapshot


def starting(store: TableStore, options: Mapping[str, str]) -> Start:
    """Return the start.

    A consumer resumes at its position; otherwise scan.mode decides, or what the other scan options imply.
    """
    read = TableOptions(options)
    consumer, ignores = read[CONSUMER_ID], read[CONSUMER_IGNORE_PROGRESS]
    known = kept_position(store, consumer) if consumer and not ignores else None
    if known is not None:
        return Start(0, known)
    travel = Travel.of({**store.schema().options, **options})
    mode = _mode(travel)
    latest = store.snapshots.latest_id() or 0
    match mode:
        case "latest":
            return Start(0, latest + 1)
        case "from-timestamp":
            # The last snapshot before the time: its successor is the first at or after it.
            before = snapshot_at(store.snapshots, (travel.millis or 0) - 1)
            return Start(0, before.id + 1 if before is not None else store.snapshots.earliest_id() or 1)
        case "from-snapshot" if travel.snapshot is not None:
            if travel.snapshot > latest + 1:
                store.snapshots.get(travel.snapshot)  # raises SnapshotMissing, with the snapshots that exist
            return Start(0, travel.snapshot)
        case "latest-full" | "full" | "compacted-full" | "from-snapshot-full":
            snapshot = resolve(store, travel)
            # An empty table: all its snapshots are still to come.
            return Start(snapshot.id, snapshot.id + 1) if snapshot is not None else Start(0, 1)
    raise ConfigError(
        f"a stream cannot start with scan.mode {mode}",
        table=store.name,
        hint="use latest-full, latest, compacted-full, from-timestamp, from-snapshot or from-snapshot-full",
    )


def levels_of_state(schema: TableSchema) -> KeptLevels | None:
    """Return which levels a stream reads of the snapshot with whose rows it begins; None for all.

    Where compactions write the changelog, rows that are not compacted yet come with the changelog of a later snapshot.
    """
    producer = schema.typed[CHANGELOG_PRODUCER]
    if not schema.primary_keys or not producer.by_compaction:
        return None
    return "compacted" if producer.by_lookup else "fully-compacted"


def _mode(travel: Travel) -> str:
    if travel.mode != "default":
        return travel.mode
    if travel.millis is not None:
        return "from-timestamp"
    if travel.snapshot is not None:
        return "from-snapshot"
    return "latest-full" if travel.tag is None else "from-snapshot-full"
