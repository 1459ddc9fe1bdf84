"""The streaming read: the changes of a table, snapshot by snapshot, as they are committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from penstock.table.buckets.layout import Layout
from penstock.table.errors import SnapshotReplaced
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.scans import STREAMING_READ_APPEND_OVERWRITE, STREAMING_READ_OVERWRITE
from penstock.table.options.table_options import TableOptions
from penstock.table.read.changes import change_splits, snapshot_or_changelog, writes_changelog
from penstock.table.read.consumer_place import ConsumerPlace
from penstock.table.read.snapshot_diff import overwritten
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.read.stream_start import kept_position
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import whole_number

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """The rows that one snapshot changed, with their kinds in the leading column rowkind."""

    snapshot: int
    rows: pa.Table
    _processed: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def processed(self) -> None:
        """Store the position of the consumer behind this snapshot now, and not when the next one is requested.

        A caller that ends the loop here is not given the snapshot again.
        """
        self._processed()


def follow(
    store: TableStore,
    from_snapshot: int | None,
    consumer_id: str | None,
    *,
    until: int | None,
    poll_seconds: float,
) -> Iterator[SnapshotChanges]:
    """Yield the changes of each snapshot; snapshots without changes of their own are skipped.

    With a consumer the position is stored: a yielded snapshot counts as read once the next one is requested, or when
    `processed()` is called on it. A caller that leaves the loop without either is given it again, since it may have
    failed half way. Unread snapshots do not expire.

    SnapshotReplaced when the table is rolled back or fast-forwarded behind the position, because snapshot ids are then
    reused.
    """
    next_id = _start(store, from_snapshot, consumer_id)
    place = ConsumerPlace(store, consumer_id)
    last = store.snapshots.find(next_id - 1)  # the table may be rolled back before the first changes are read
    # Before the first read: from here on the next snapshot does not expire.
    place.keep(next_id, _mark(last))
    created = store.schemas.created_millis()

    while until is None or next_id <= until:
        snapshot = next_snapshot(store, next_id)
        if snapshot is None:
            place.keep(next_id, _mark(last))
            store.ambient.sleep(poll_seconds)
            continue
        # After a rollback ids are assigned again: the next id may belong to another history.
        # Checked after the next snapshot was read, so that a rollback between the two reads is noticed.
        check_follows(store, last, created)
        last = snapshot
        rows = _changes_of(store, snapshot)
        if rows.num_rows:
            yield SnapshotChanges(snapshot.id, rows, partial(place.keep, next_id + 1, snapshot.mark))
        next_id += 1
        place.keep(next_id, snapshot.mark)


def _mark(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else snapshot.mark


def _start(store: TableStore, from_snapshot: int | None, consumer_id: str | None) -> int:
    known = kept_position(store, consumer_id) if consumer_id is not None else None
    if known is not None:
        return known
    if from_snapshot is not None:
        return whole_number(from_snapshot, "from_snapshot")
    earliest = store.snapshots.earliest_id()
    return 1 if earliest is None else earliest


def next_snapshot(store: TableStore, snapshot_id: int) -> Snapshot | None:
    """Return the snapshot with this id, or None when it is not committed yet.

    SnapshotMissing when it has expired, SnapshotReplaced after a rollback.
    """
    snapshot = store.snapshots.find(snapshot_id)
    if snapshot is not None:
        return snapshot
    # Read after the look for the snapshot: one that was committed in between is then found by the last line.
    latest = store.snapshots.latest_id() or 0
    if snapshot_id == latest + 1:
        return None
    if snapshot_id > latest + 1:
        raise SnapshotReplaced(
            f"snapshot {snapshot_id} is the next snapshot of this reader, but the newest one is {latest}: the"
            " table was rolled back, or dropped and created again",
            table=store.name,
            hint="reset the consumer, or follow from a snapshot that exists",
        )
    return snapshot_or_changelog(store, snapshot_id)


def is_another(store: TableStore, number: int, mark: int | None, created: int | None) -> bool:
    """Return whether snapshot `number`, which was read before, is another now. 0: nothing was read yet.

    `mark` is the mark of the snapshot. If it has expired, the time at which the table was created says whether the
    table is the one that was read. Each may be 0 or None: older versions did not store it.
    """
    if not number:
        return False
    found = store.snapshots.find(number)
    if found is None:
        return bool(created) and store.schemas.created_millis() != created
    return mark is not None and mark > 0 and not found.has_mark(mark)


def check_follows(store: TableStore, last: Snapshot | None, created: int) -> None:
    """Raise SnapshotReplaced when the snapshot read last has been replaced by another with the same id.

    If it has expired, the time at which the table was created says whether the table is the one that was read.
    """
    found = store.snapshots.find(last.id) if last is not None else None
    if found is None and store.schemas.created_millis() != created:
        raise SnapshotReplaced(
            "the table was dropped and created again after it was read",
            table=store.name,
            hint="reset the consumer, or follow the new table from its first snapshot",
        )
    if last is not None and found is not None and found != last:
        raise SnapshotReplaced(
            f"snapshot {last.id} was replaced after it was read: the table was rolled back",
            table=store.name,
            hint="the reader has rows of snapshots that no longer exist: reset the consumer, or follow from a"
            " snapshot that exists",
        )


def reads_overwrites(schema: TableSchema, options: Mapping[str, str] | None = None) -> bool:
    """Return whether a streaming read shows the changes of OVERWRITE snapshots.

    The reader's `options` override the table's. For tables with keys the removed rows are read as -D; for tables
    without keys only the new rows are read, as in Paimon.
    """
    option = STREAMING_READ_OVERWRITE if schema.primary_keys else STREAMING_READ_APPEND_OVERWRITE
    return TableOptions({**schema.options, **(options or {})})[option]


def follows_overwrite(
    table: str, schema: TableSchema, snapshot: Snapshot, options: Mapping[str, str] | None = None
) -> bool:
    """Return whether a streaming read shows the changes of this OVERWRITE snapshot. If not, the log says so."""
    if reads_overwrites(schema, options):
        return True
    log.warning("event=overwrite_not_followed table=%s snapshot=%d", table, snapshot.id)
    return False


def snapshot_splits(store: TableStore, snapshot: Snapshot) -> list[Split]:
    """Return the splits a streaming read reads for one snapshot."""
    layout = Layout.of(store.schema())
    mode = "changelog" if writes_changelog(layout) else "delta"
    return change_splits(store, snapshot, mode)


def _changes_of(store: TableStore, snapshot: Snapshot) -> pa.Table:
    schema = store.schema()
    layout = Layout.of(schema)
    reader = SplitReader(store, layout, schema.fields, kinds=True)
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        if not follows_overwrite(store.name, schema, snapshot):
            return reader.schema.empty_table()
        return pa.Table.from_batches(overwritten(store, reader, snapshot), reader.schema)
    batches = (batch for split in snapshot_splits(store, snapshot) for batch in reader.read_files(split))
    return pa.Table.from_batches(batches, reader.schema)
