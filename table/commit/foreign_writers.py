"""Detection of rows that another job committed since this job read the table, and that conflict with its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.errors import CommitConflict
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.merge.spec import MovedKey
from penstock.table.meta.entries import HASH_INDEX, Bucket, CommitMessage, FileKind, ManifestEntry
from penstock.table.meta.live import added_between, delta_entries, history_expired, index_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore

_ONE_WRITER = (
    "set write-only on the table, or on each job that writes to it, and compact it by a separate job; or let only one"
    " job write to a bucket with a primary key"
)


def check_foreign_writers(
    store: TableStore, layout: Layout, messages: Sequence[CommitMessage], latest: Snapshot
) -> None:
    """Raise ForeignWriter when `messages` with new rows cannot be committed on `latest`.

    HistoryExpired when snapshots needed for the check have expired. A second driver of the same job counts as another
    job.
    """
    # Postponed buckets may have several writers: a compaction gives their rows buckets and sequence numbers.
    written = [message for message in messages if message.new_files and message.bucket >= 0]
    base = _base(store, written, latest)
    if base == latest.id:
        return
    between = list(added_between(store, base, latest))
    check_foreign_rows(between, _starts(written), store.name)
    if layout.mode is BucketMode.CROSS_PARTITION:
        check_foreign_keys(between, store.name)
        if merge_engine(layout.schema.typed).moved_key is MovedKey.STAYS:
            _check_known_keys(store, layout, base, latest)
    if layout.mode is BucketMode.DYNAMIC:
        _check_places_of_keys(store, layout, written, latest)


def check_kept_partitions(
    store: TableStore,
    layout: Layout,
    messages: Sequence[CommitMessage],
    covers: Callable[[bytes], bool],
    latest: Snapshot,
) -> None:
    """Raise ForeignWriter when an overwrite of some partitions might give a key a second row.

    If keys move between partitions, its writer has checked that its keys are in no partition that it keeps. Another job
    may have added them there since.
    """
    written = [message for message in messages if message.new_files]
    if layout.mode is not BucketMode.CROSS_PARTITION or not written:
        return
    for other, snapshot, entry in added_between(store, _base(store, written, latest), latest):
        if entry.kind is FileKind.ADD and entry.file.level == 0 and not covers(entry.partition):
            raise ForeignWriter(
                f"{other!r} wrote to a partition that this overwrite keeps, in a table whose keys move between"
                " partitions",
                table=store.name,
                partition=str(layout.partition_values(entry.partition)),
                snapshot=snapshot,
                file=entry.file.name,
                hint="repeat the overwrite while no other job writes to the table",
            )


def _base(store: TableStore, written: Sequence[CommitMessage], latest: Snapshot) -> int:
    """Return the oldest snapshot that these messages build on; without messages, the snapshot `latest`."""
    base = min((message.base_snapshot for message in written), default=latest.id)
    undone = base if base > latest.id else _replaced_base(store, written, latest)
    if undone is not None:
        raise ForeignWriter(
            "the table was rolled back while this job wrote to it",
            table=store.name,
            work_began_at_snapshot=undone,
            newest_snapshot=latest.id,
            hint="write the rows again",
        )
    return base


def _replaced_base(store: TableStore, messages: Iterable[CommitMessage], latest: Snapshot) -> int | None:
    """Return the id of a snapshot that these messages build on, if another snapshot has the id now.

    After a rollback, commits of other jobs reuse the ids. A snapshot that has expired cannot be compared.
    """
    for number, mark in sorted({(message.base_snapshot, message.base_mark) for message in messages}):
        found = latest if number == latest.id else store.snapshots.find(number) if number and mark else None
        if mark and found is not None and not found.has_mark(mark):
            return number
    return None


def _starts(messages: Sequence[CommitMessage]) -> dict[Bucket, tuple[int, int]]:
    """Return per bucket the snapshot its writer read, and the first sequence number it assigned."""
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
    """Raise ForeignWriter when another job added rows with sequence numbers our writer also assigned.

    `between` contains (commit user, snapshot, entry) of everything committed after our writers read the table; `starts`
    is the result of `_starts`.
    """
    for other, snapshot, entry in between:
        start = starts.get((entry.partition, entry.bucket))
        if start is None or entry.kind is not FileKind.ADD:
            continue
        base, sequence = start
        # A compaction keeps the numbers of the rows that it rewrites. Its files are below ours, and do not count as
        # foreign.
        if snapshot > base and entry.file.max_sequence >= sequence:
            raise ForeignWriter(
                f"{other!r} wrote to a bucket that this job also writes to",
                table=table,
                bucket=entry.bucket,
                snapshot=snapshot,
                file=entry.file.name,
                hint=_ONE_WRITER,
            )


def check_not_overwritten(
    store: TableStore, messages: Sequence[CommitMessage], latest: Snapshot | None, own: Snapshot | None
) -> None:
    """Raise CommitConflict when an overwrite, other than the snapshot `own`, deleted files of a compacted bucket.

    Raise it also when the table was rolled back meanwhile; with `own`, the first half of the commit has checked this.
    A compaction also reads files that it does not replace, because it looks keys up in them. If these files are gone,
    the rows that it merged with their rows, or dropped because of them, are wrong.
    """
    compacted = [message for message in messages if message.has_compaction]
    bases = {(message.partition, message.bucket): message.base_snapshot for message in compacted}
    if latest is None or not bases:
        return
    undone = _replaced_base(store, compacted, latest) if own is None else None
    if undone is not None:
        raise CommitConflict(
            "the table was rolled back while it was compacted",
            table=store.name,
            work_began_at_snapshot=undone,
            newest_snapshot=latest.id,
            hint="compact the table again; a dropped compaction loses no data",
        )
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
                        hint="compact the bucket again; a dropped compaction loses no data",
                    )
        # The walk ends here: the compaction read the base itself.
        if snapshot.id == base + 1:
            return
        before = store.snapshots.find(snapshot.id - 1)
        if before is None:
            raise history_expired(store, base, snapshot.id)
        snapshot = before


def check_foreign_keys(between: Iterable[tuple[str, int, ManifestEntry]], table: str) -> None:
    """Raise ForeignWriter when another job added rows to a table whose keys move between partitions.

    A row in any bucket may have moved a key away from the partition our index has it in. `between` is as in
    `check_foreign_rows`, starting after the snapshot our index was read at.
    """
    for other, snapshot, entry in between:
        # New rows are on level 0. Files on other levels are from compactions, which move no key.
        if entry.kind is FileKind.ADD and entry.file.level == 0:
            raise ForeignWriter(
                f"{other!r} wrote to a table in which this job moves keys between partitions",
                table=table,
                bucket=entry.bucket,
                snapshot=snapshot,
                file=entry.file.name,
                hint="let only one job write to a table whose primary key lacks partition columns",
            )


def _check_known_keys(store: TableStore, layout: Layout, base: int, latest: Snapshot) -> None:
    """Raise ForeignWriter when another job dropped or replaced a partition in which this job may have found a key.

    A row stays in the partition of its key, so this job's rows would be in the partition that was dropped.
    """
    for number in range(base + 1, latest.id + 1):
        snapshot = latest if number == latest.id else store.snapshots.get(number)
        if snapshot.commit_kind is not CommitKind.OVERWRITE:
            continue
        for entry in delta_entries(store, snapshot):
            if entry.kind is FileKind.DELETE:
                raise ForeignWriter(
                    f"{snapshot.commit_user!r} dropped or replaced a partition of a table in which this job looks up"
                    " the partitions of keys",
                    table=store.name,
                    partition=str(layout.partition_values(entry.partition)),
                    snapshot=snapshot.id,
                    hint="write the rows again",
                )


def _check_places_of_keys(
    store: TableStore, layout: Layout, messages: Sequence[CommitMessage], latest: Snapshot
) -> None:
    """Raise ForeignWriter when another job changed the hash index of buckets this job writes.

    With dynamic buckets it may have assigned a bucket to a key that this job assigned too, or have dropped the index
    this job looked its keys up in.
    """
    now = _hash_files(store, latest)
    for base in {message.base_snapshot for message in messages}:
        before = _hash_files_at(store, base, latest)
        mine = [message for message in messages if message.base_snapshot == base]
        grown = {message.partition for message in mine if message.index_changes}
        places = {(message.partition, message.bucket) for message in mine}
        # A job that assigned a key is checked against all buckets of the partition: another job may have put the
        # same key into a bucket that this one does not write.
        places |= {place for place in (*before, *now) if place[0] in grown}
        for partition, bucket in sorted(places):
            if before.get((partition, bucket)) != now.get((partition, bucket)):
                raise ForeignWriter(
                    "another job assigned keys to dynamic buckets of a partition that this job writes to",
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
    entries = index_entries(store, snapshot, to_commit=True)
    return {(entry.partition, entry.bucket): entry.name for entry in entries if entry.index_type == HASH_INDEX}
