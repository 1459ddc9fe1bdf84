"""The part of the public `Table` class that maintains a table: expiry, rollback, tags, branches, consumers, repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from penstock.errors import ConfigError
from penstock.table.description import TableDescription
from penstock.table.errors import SnapshotMissing
from penstock.table.iceberg.publication import publish, publish_if_enabled
from penstock.table.maintenance.branches import create_branch, delete_branch, fast_forward
from penstock.table.maintenance.changelog_expiry import expire_changelogs
from penstock.table.maintenance.done_partitions import mark_partitions_done
from penstock.table.maintenance.file_deletion import ExpiryResult
from penstock.table.maintenance.orphans import Orphan, delete_orphans, find_orphans
from penstock.table.maintenance.partition_expiry import expire_partitions
from penstock.table.maintenance.rollback import RollbackResult, rollback_to, undone_by_rollback
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag, expire_tags
from penstock.table.maintenance.tags import (
    create_tag,
    rename_tag,
    replace_tag,
    tag_from_timestamp,
    tag_from_watermark,
)
from penstock.table.maintenance.upkeep import Upkeep, expire_consumers, keep_up
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.operations.executor import Executor
from penstock.table.operations.repair import (
    RepairResult,
    compact_manifests,
    remove_unexisting_files,
    remove_unexisting_manifests,
)
from penstock.table.values.arguments import duration, epoch_millis, optional_whole_number, whole_number


class TableMaintenance(TableDescription):
    """The maintenance of a table: each method calls the module that implements it."""

    def maintain(self, last: Upkeep | None = None, *, seconds: float = 60.0) -> Upkeep:
        """Run one bounded round of the table's expirations, and create the tags that are due; see `keep_up`."""
        return keep_up(self._store, last, seconds=duration(seconds, "seconds"))

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | str | datetime | None = None,
        max_deletes: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> ExpiryResult:
        """Expire snapshots, in one bounded round.

        Arguments that are None fall back to the table's options, or to `options`.
        """
        store, options = self._on_branch(options)
        expired = expire_snapshots(
            store,
            retain_max=optional_whole_number(retain_max, "retain_max"),
            retain_min=optional_whole_number(retain_min, "retain_min"),
            older_than=_millis(older_than, "older_than"),
            max_deletes=optional_whole_number(max_deletes, "max_deletes"),
            options=options,
        )
        publish_if_enabled(store)
        return expired

    def rollback_to(self, target: int | str | datetime) -> Snapshot:
        """Roll the table back to a snapshot (its id), a tag (its name) or the last snapshot at a time.

        Later snapshots and tags are removed, and consumers that had read them are set back; `undone_by_rollback` lists
        them.
        """
        return rollback_to(self._store, self._point(target))

    def undone_by_rollback(self, target: int | str | datetime) -> RollbackResult:
        """Return the snapshots and tags that `rollback_to` would remove, and the consumers it would set back."""
        return undone_by_rollback(self._store, self._point(target))

    def _point(self, target: int | str | datetime) -> int | str:
        if isinstance(target, str):
            return target
        if not isinstance(target, datetime):
            return whole_number(target, "the target")
        found = snapshot_at(self._store.snapshots, int(target.timestamp() * 1000))
        if found is None:
            raise SnapshotMissing(f"there is no snapshot as old as {target.isoformat()}", table=self.name)
        return found.id

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        timestamp: int | str | datetime | None = None,
        watermark: int | None = None,
        retain_millis: int | None = None,
    ) -> None:
        """Keep a snapshot under a name: the latest, the given one, or the first at or after a time or a watermark."""
        if sum(given is not None for given in (snapshot, timestamp, watermark)) > 1:
            raise ConfigError(
                "a tag keeps one snapshot, and several are given",
                table=self.name,
                tag=name,
                hint="name one of snapshot, timestamp and watermark",
            )
        watermark = optional_whole_number(watermark, "watermark")
        retain_millis = optional_whole_number(retain_millis, "retain_millis")
        if watermark is not None:
            tag_from_watermark(self._store, name, watermark, retain_millis)
        elif (millis := _millis(timestamp, "timestamp")) is not None:
            tag_from_timestamp(self._store, name, millis, retain_millis)
        else:
            create_tag(self._store, name, optional_whole_number(snapshot, "snapshot"), retain_millis)

    def replace_tag(self, name: str, snapshot: int | None = None, *, retain_millis: int | None = None) -> None:
        """Move an existing tag to another snapshot, the latest when None."""
        retain_millis = optional_whole_number(retain_millis, "retain_millis")
        replace_tag(self._store, name, optional_whole_number(snapshot, "snapshot"), retain_millis)

    def rename_tag(self, name: str, new_name: str) -> None:
        """Rename a tag."""
        rename_tag(self._store, name, new_name)

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that only it used."""
        delete_tag(self._store, name)

    def expire_tags(self, *, older_than: int | str | datetime | None = None) -> list[str]:
        """Delete the tags whose retention time is over, and those created before `older_than`; return their names."""
        return expire_tags(self._store, older_than=_millis(older_than, "older_than"))

    def create_branch(self, name: str, tag: str | None = None) -> Self:
        """Create a branch from a tag, or an empty one, and return it opened."""
        create_branch(self._store, name, tag)
        return self.branch(name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch with its snapshots, tags and schemas."""
        delete_branch(self._store, name)

    def fast_forward(self, branch: str) -> RollbackResult:
        """Replace the main branch with `branch`; return what main lost by it."""
        return fast_forward(self._store, branch)

    def reset_consumer(self, consumer_id: str, next_snapshot: int | None = None) -> None:
        """Set the snapshot a consumer reads next.

        With None the consumer is deleted, and protects no snapshot from expiring.
        """
        next_snapshot = optional_whole_number(next_snapshot, "next_snapshot")
        files = ConsumerFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        if next_snapshot is None:
            files.delete(consumer_id)
        elif next_snapshot < 1:
            raise ConfigError(
                f"no reader can continue at snapshot {next_snapshot}: snapshot ids start at 1",
                table=self.name,
                hint="name the next snapshot that the consumer is to read, 1 or more",
            )
        else:
            files.put(consumer_id, next_snapshot)

    def expire_consumers(self, older_than: int | str | datetime | None = None) -> list[str]:
        """Delete the consumers that have not moved since `older_than`; return their ids.

        None uses `consumer.expiration-time`.
        """
        return expire_consumers(self._store, _millis(older_than, "older_than"))

    def expire_partitions(self, options: Mapping[str, str] | None = None) -> list[dict[str, object]]:
        """Drop the partitions older than `partition.expiration-time`; return their values."""
        store, options = self._on_branch(options)
        return expire_partitions(store, options)

    def mark_partitions_done(self, partitions: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        """Run `partition.mark-done-action` for the partitions.

        Each is given by the values of all or some partition columns.
        """
        return mark_partitions_done(self._store, partitions)

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | str | datetime | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
    ) -> ExpiryResult:
        """Expire, in one bounded round, changelogs that outlived their snapshots.

        With `delete_all`, all of them are deleted.
        """
        return expire_changelogs(
            self._store,
            retain_max=optional_whole_number(retain_max, "retain_max"),
            retain_min=optional_whole_number(retain_min, "retain_min"),
            older_than=_millis(older_than, "older_than"),
            max_deletes=optional_whole_number(max_deletes, "max_deletes"),
            delete_all=delete_all,
        )

    def publish_iceberg(self) -> int | None:
        """Bring the Iceberg metadata of the table up to date; return the snapshot it shows.

        Every commit does this too. None: the table has no Iceberg metadata (`metadata.iceberg.storage`), or no
        snapshot.
        """
        return publish(self._store, all_tags=True)

    def compact_manifests(self, *, dry_run: bool = False, options: Mapping[str, str] | None = None) -> RepairResult:
        """Merge the table's manifests into fewer and larger ones, in a COMPACT snapshot that changes no row."""
        store, options = self._on_branch(options)
        return compact_manifests(store, dry_run=dry_run, options=options)

    def remove_unexisting_files(
        self, partitions: Sequence[Mapping[str, object]] | None = None, *, dry_run: bool = False
    ) -> RepairResult:
        """Remove data files that no longer exist from the table's metadata; their rows are lost."""
        return remove_unexisting_files(self._store, partitions, dry_run=dry_run)

    def remove_unexisting_manifests(self, *, dry_run: bool = False) -> RepairResult:
        """Commit a snapshot that consists of the manifests that still exist, after some were lost."""
        return remove_unexisting_manifests(self._store, dry_run=dry_run)

    def remove_orphan_files(
        self,
        *,
        dry_run: bool = False,
        older_than: int | str | datetime | None = None,
        executor: Executor | None = None,
    ) -> list[Orphan]:
        """Delete the files that no snapshot refers to; return them.

        Only files last written before `older_than` (default: a day ago). It must be in the past, because nothing refers
        to the files that commits are writing now. With `dry_run` nothing is deleted.
        """
        before = _millis(older_than, "older_than")
        if before is not None and before >= self._store.ambient.now_millis() and not dry_run:
            raise ConfigError(
                "older_than is not in the past: files that a commit is writing now would be deleted",
                table=self._store.name,
                older_than=older_than,
                hint="a time before the start of the longest job that writes; the default is a day ago",
            )
        found = find_orphans(self._store, before, executor)
        if found and not dry_run:
            delete_orphans(self._store, found, executor)
        return found


def _millis(moment: int | str | datetime | None, argument: str) -> int | None:
    return None if moment is None else epoch_millis(moment, argument)
