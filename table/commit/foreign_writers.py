"""Finding rows that another job committed since this one looked at the table, where both cannot stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.errors import CommitConflict
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.meta.entries import HASH_INDEX, Bucket, CommitMessage, FileKind, ManifestEntry
from penstock.table.meta.live import added_between, delta_entries, history_expired, index_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore

_ONE_WRITER = "let one job write a primary-key bucket, or set write-only on all but one and compact apart"


def check_foreign_writers(
    store: TableStore, layout: Layout, messages: Sequence[CommitMessage], latest: Snapshot
) -> None:
    """Raise ForeignWriter when `messages` with new rows cannot be put on `latest`, HistoryExpired when the snapshots
    that would tell have expired. A second driver of the same job counts as another job.
    """
    written = [message for message in messages if message.new_files and message.bucket >= 0]
    base = min((message.base_snapshot for message in written), default=latest.id)
    if base > latest.id:
        raise ForeignWriter(
            "the table was rolled back while this job wrote to it",
            table=store.name,
            work_began_at_snapshot=base,
            newest_snapshot=latest.id,
            hint="write the rows again",
        )
    if base == latest.id:
        return
    between = list(added_between(store, base, latest))
    check_foreign_rows(between, _starts(written), store.name)
    if layout.mode is BucketMode.CROSS_PARTITION:
        check_foreign_keys(between, store.name)
    if layout.mode is BucketMode.DYNAMIC:
        _check_places_of_keys(store, layout, written, latest)


def _starts(messages: Sequence[CommitMessage]) -> dict[Bucket, tuple[int, int]]:
    """Per bucket the snapshot that its writer read, and the first sequence number that it gave out."""
    starts: dict[Bucket, tuple[int, int]] = {}
    for message in messages:
        first = message.first_sequence
        if first is None:
            first = min(file.min_sequence for file in message.new_files)
        starts[message.partition, message.bucket] = (message.base_snapshot, first)
    return starts


def check_foreign_rows(
    between: Iterable[tuple[str, int, ManifestEntry]], starts: Mapping[Bucket, tuple[int, int]], table: str
) -> None:
    """`between`: (commit user, snapshot, entry) of what was committed after our writers looked; `starts` as above."""
    for other, snapshot, entry in between:
        start = starts.get((entry.partition, entry.bucket))
        if start is None or entry.kind is not FileKind.ADD:
            continue
        base, sequence = start
        if snapshot > base and entry.file.max_sequence >= sequence:
            raise ForeignWriter(
                f"{other!r} wrote to a bucket this job writes",
                table=table,
                bucket=entry.bucket,
                snapshot=snapshot,
                file=entry.file.name,
                hint=_ONE_WRITER,
            )


def check_not_overwritten(
    store: TableStore, messages: Sequence[CommitMessage], latest: Snapshot | None, own: Snapshot | None
) -> None:
    """Raise CommitConflict when an overwrite, other than the snapshot `own`, took files of a compacted bucket away.

    A compaction also reads files that it leaves in their places: those in which it looks keys up. Rows that it merged
    with, or left out because of, rows that are gone by now would be wrong.
    """
    compacted = [message for message in messages if message.compact_before or message.compact_after]
    bases = {(message.partition, message.bucket): message.base_snapshot for message in compacted}
    if latest is None or not bases:
        return
    base, snapshot = min(bases.values()), latest
    while snapshot.id > base:
        if snapshot.commit_kind is CommitKind.OVERWRITE and (own is None or snapshot.id != own.id):
            for entry in delta_entries(store, snapshot):
                read_at = bases.get((entry.partition, entry.bucket), snapshot.id)
                if entry.kind is FileKind.DELETE and read_at < snapshot.id:
                    raise CommitConflict(
                        "the bucket was overwritten while it was compacted",
                        table=store.name,
                        bucket=entry.bucket,
                        snapshot=snapshot.id,
                        hint="compact it again; a lost compaction loses no data",
                    )
        if snapshot.id == base + 1:
            return
        before = store.snapshots.find(snapshot.id - 1)
        if before is None:
            raise history_expired(store, base, snapshot.id)
        snapshot = before


def check_foreign_keys(between: Iterable[tuple[str, int, ManifestEntry]], table: str) -> None:
    """Where keys move between partitions, rows in any bucket may tell that a key lies elsewhere than our index has it.

    `between` as above, after the snapshot that our index was read at.
    """
    for other, snapshot, entry in between:
        if entry.kind is FileKind.ADD and entry.file.level == 0:
            raise ForeignWriter(
                f"{other!r} wrote to a table whose keys this job moves between partitions",
                table=table,
                bucket=entry.bucket,
                snapshot=snapshot,
                file=entry.file.name,
                hint="let one job write a table whose primary key does not hold its partition keys",
            )


def _check_places_of_keys(
    store: TableStore, layout: Layout, messages: Sequence[CommitMessage], latest: Snapshot
) -> None:
    """With dynamic buckets another job may have given a bucket to a key that this job gave one too, or have dropped
    the index that this job found its keys in.
    """
    now = _hash_files(store, latest)
    for base in {message.base_snapshot for message in messages}:
        before = _hash_files_at(store, base, latest)
        mine = [message for message in messages if message.base_snapshot == base]
        grown = {message.partition for message in mine if message.index_changes}
        places = {(message.partition, message.bucket) for message in mine}
        places |= {place for place in (*before, *now) if place[0] in grown}
        for partition, bucket in sorted(places):
            if before.get((partition, bucket)) != now.get((partition, bucket)):
                raise ForeignWriter(
                    "another job changed which keys are in which dynamic buckets of a partition this job writes",
                    table=store.name,
                    partition=str(layout.partition_values(partition)),
                    bucket=bucket,
                    hint="let one job at a time write new keys to a partition with dynamic buckets",
                )


def _hash_files_at(store: TableStore, base: int, latest: Snapshot) -> dict[Bucket, str]:
    if base == 0:
        return {}
    snapshot = store.snapshots.find(base)
    if snapshot is None:
        raise history_expired(store, base, store.snapshots.earliest_id() or latest.id)
    return _hash_files(store, snapshot)


def _hash_files(store: TableStore, snapshot: Snapshot) -> dict[Bucket, str]:
    entries = index_entries(store, snapshot)
    return {(entry.partition, entry.bucket): entry.name for entry in entries if entry.index_type == HASH_INDEX}
