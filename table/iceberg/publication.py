"""The publication of a table's snapshots as Iceberg metadata.

Everything is derived from the table, whose snapshot is committed before. If a writer dies before it publishes a
snapshot, the next commit publishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.errors import ConfigError, PenstockError, TableCorrupt
from penstock.table.iceberg.catalog_entry import follow_entry
from penstock.table.iceberg.data_files import DataFiles
from penstock.table.iceberg.expired_files import ExpiredFiles
from penstock.table.iceberg.manifest_changes import ManifestChanges
from penstock.table.iceberg.manifest_files import ManifestFiles
from penstock.table.iceberg.metadata import IcebergMetadata, IcebergSnapshot, kept_tags, parse_metadata, partition_spec
from penstock.table.iceberg.place import IcebergPlace, same_place
from penstock.table.iceberg.types import check_iceberg, iceberg_schema, is_enabled
from penstock.table.meta.container import UNREADABLE
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.options.iceberg import ICEBERG_FORMAT_VERSION
from penstock.table.schema.iceberg_types import unfollowed
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)
_TRIES = 5


def publish_if_enabled(store: TableStore, *, all_tags: bool = False, again: bool = False) -> None:
    """Publish the newest snapshot if the table has Iceberg metadata; see `publish`.

    Failures are only logged: the change of the table is committed already, and the next commit publishes it.
    """
    try:
        publish(store, all_tags=all_tags, again=again)
    # Another program may have written the metadata before, in any form.
    except (PenstockError, *UNREADABLE) as error:
        log.warning("event=iceberg_metadata_failed table=%s reason=%s (the next commit tries again)", store.name, error)


def publish(store: TableStore, *, all_tags: bool = False, again: bool = False) -> int | None:
    """Bring the Iceberg metadata up to date, and return the newest snapshot; None if the table has no such metadata.

    Only what has changed since the last published snapshot is read and written. Without a usable one, the metadata is
    made from all files of the table, and with `again` in any case. `all_tags`: existing tags may name other snapshots
    than before. A branch has no Iceberg metadata.
    """
    schema = store.schema()
    if store.paths.branch is not None or not is_enabled(schema):
        return None
    check_iceberg(schema)
    place = IcebergPlace.of(store, schema)
    for _ in range(_TRIES):
        latest = store.snapshots.latest()
        if latest is None:
            return None
        if _Publication(store, schema, place, latest, all_tags=all_tags, again=again).run():
            return latest.id
    return None  # other writers are faster, and publish their own commits


@dataclass(slots=True)
class _Publication:
    """One attempt to publish the snapshot `latest`."""

    store: TableStore
    schema: TableSchema
    place: IcebergPlace
    latest: Snapshot
    all_tags: bool
    again: bool

    def run(self) -> bool:
        """Publish the snapshot; return False when another writer has published it in the meantime."""
        newest = self.place.newest_version()
        if newest is not None and newest > self.latest.id and self._is_late():
            return False
        old = None if newest is None else self._read(newest)
        base = None if old is None or self.again else self._usable(old)
        files = ManifestFiles(self.place, self.schema, self.store.ambient.new_uuid)
        metadata = self._made(files, base)
        if base is not None and newest == self.latest.id and metadata == base:
            self._show(back=False)
            return True
        data = metadata.encode(self.store.ambient.now_millis())
        if newest is not None and newest >= self.latest.id:
            self.place.replace_version(self.latest.id, data)
        elif not self.place.create_version(self.latest.id, data):
            ExpiredFiles(self.place, files).delete_names(files.written)
            self._show(back=False)  # its writer may have died before
            return False
        # Before files are deleted that the former version needs: readers of a catalog still see that version if the
        # catalog does not answer.
        self._show(back=True)
        ExpiredFiles(self.place, files).delete(old, metadata, newest, usable=base is not None)
        return True

    def _is_late(self) -> bool:
        """Return whether the table has newer snapshots by now: then the later version was not rolled back."""
        newest = self.store.snapshots.latest_id()
        return newest is not None and newest > self.latest.id

    def _show(self, *, back: bool) -> None:
        """Let readers find the new version, by the hint and, if the options require it, by a catalog."""
        self.place.write_hint(self.latest.id, back=back)
        follow_entry(self.store, self.schema, self.place)

    def _read(self, version: int) -> IcebergMetadata | None:
        data, path = self.place.read_version(version), self.place.path_of_version(version)
        if data is None:
            return None
        try:
            return parse_metadata(data, path)
        except TableCorrupt as reason:
            log.warning("event=iceberg_metadata_remade table=%s reason=%s", self.store.name, reason)
            return None

    def _usable(self, old: IcebergMetadata) -> IcebergMetadata | None:
        """Return the metadata up to the newest snapshot that still belongs to the table; or None."""
        same_table = (
            same_place(old.location, self.place.location)
            and old.version == self.schema.typed[ICEBERG_FORMAT_VERSION]
            and old.spec.get("fields") == partition_spec(self.schema)["fields"]
            and old.schema_id <= self.schema.id
        )
        ids = {snapshot.id for snapshot in old.snapshots}
        # The table may have been rolled back since.
        current = min(old.current_id, self.latest.id)
        if not same_table or current not in ids:
            return None
        base = old.at(current)
        snapshot = self.latest if current == self.latest.id else self.store.snapshots.find(current)
        # After a rollback or a new beginning of the table, an id belongs to another snapshot.
        return base if snapshot is None or base.shows(snapshot) else None

    def _made(self, files: ManifestFiles, base: IcebergMetadata | None) -> IcebergMetadata:
        if base is not None:
            try:
                return self._finished(self._followed(files, base))
            except (TableCorrupt, FileNotFoundError, _Gap) as reason:
                log.info("event=iceberg_metadata_remade table=%s reason=%s", self.store.name, reason)
        return self._finished(self._begun(files))

    def _begun(self, files: ManifestFiles) -> IcebergMetadata:
        """Return metadata made from all files of the table."""
        data = DataFiles(self.store, self.schema, self.place.location)
        shown = [entry for entry in live_entries(self.store, self.latest) if data.is_shown(entry)]
        self._check_types({entry.file.schema_id for entry in shown})
        manifests = ManifestChanges(data, files).all_of(self.latest, shown)
        snapshot = self._snapshot(self.latest, files.write_list(manifests, self.latest.id), "append")
        return IcebergMetadata(
            self.schema.typed[ICEBERG_FORMAT_VERSION],
            self.store.ambient.new_uuid(),
            self.place.location,
            tuple(self._schemas(range(self.schema.id))),
            partition_spec(self.schema),
            (snapshot,),
            {},
            self.latest.id,
            by_penstock=True,
            pure=True,
        )

    def _check_types(self, schema_ids: Iterable[int]) -> None:
        """Raise ConfigError if files of one of these schema versions have columns that Iceberg cannot read."""
        for number in sorted(schema_ids):
            columns = unfollowed(self.store.schemas.get(number), self.schema)
            if columns:
                raise ConfigError(
                    "columns had a type before that Iceberg's readers cannot convert",
                    table=self.store.name,
                    columns=", ".join(columns),
                    hint="rewrite all files by a full compaction, or remove metadata.iceberg.storage",
                )

    def _followed(self, files: ManifestFiles, base: IcebergMetadata) -> IcebergMetadata:
        """Return the metadata with the snapshots that follow the snapshots in `base`."""
        if base.current_id == self.latest.id:
            return base
        data = DataFiles(self.store, self.schema, base.location)
        changes = ManifestChanges(data, files)
        manifests = files.read_list(base.current.manifest_list)
        before = self.store.snapshots.find(base.current_id)
        snapshots = list(base.snapshots)
        for number in range(base.current_id + 1, self.latest.id + 1):
            snapshot = self.latest if number == self.latest.id else self.store.snapshots.find(number)
            if snapshot is None or not _is_next(before, snapshot):
                raise _Gap(f"the changes of snapshot {number} are not known")
            made = data.changes(delta_entries(self.store, snapshot), pure=base.pure)
            same_vectors = before is not None and before.index_manifest == snapshot.index_manifest
            manifests = changes.after(manifests, made, snapshot, same_vectors=same_vectors)
            operation = "overwrite" if made.removed or (not same_vectors and before is not None) else "append"
            snapshots.append(self._snapshot(snapshot, files.write_list(manifests, number), operation))
            before = snapshot
        return replace(base, snapshots=tuple(snapshots), current_id=self.latest.id, by_penstock=True)

    def _snapshot(self, snapshot: Snapshot, manifest_list: str, operation: str) -> IcebergSnapshot:
        time, schema, mark = snapshot.time_millis, snapshot.schema_id, snapshot.mark
        return IcebergSnapshot(snapshot.id, time, manifest_list, schema, operation, mark)

    def _schemas(self, numbers: Iterable[int]) -> Iterable[dict[str, object]]:
        """Yield schema versions and the newest one. Versions with types that Iceberg does not have are left out."""
        for number in numbers:
            try:
                yield iceberg_schema(self.store.schemas.get(number))
            except ConfigError:
                continue
        yield iceberg_schema(self.schema)

    def _finished(self, metadata: IcebergMetadata) -> IcebergMetadata:
        """Return the metadata with the table's newest schema and tags, and without expired snapshots."""
        schemas = metadata.schemas
        if metadata.schema_id < self.schema.id:
            schemas = (*schemas, *self._schemas(range(metadata.schema_id + 1, self.schema.id)))
        known = {int(schema["schema-id"]) for schema in schemas}
        tags = self._tags(metadata)
        earliest = self.store.snapshots.earliest_id() or self.latest.id
        kept = {*tags.values(), self.latest.id}
        snapshots = tuple(
            snapshot if snapshot.schema_id in known else replace(snapshot, schema_id=self.schema.id)
            for snapshot in metadata.snapshots
            if snapshot.id >= earliest or snapshot.id in kept
        )
        return replace(metadata, schemas=schemas, snapshots=snapshots, tags=kept_tags(tags, snapshots))

    def _tags(self, metadata: IcebergMetadata) -> dict[str, int]:
        files = TagFiles(self.store.storage, self.store.paths.root)
        tags = {}
        for name in files.names():
            if name in metadata.tags and not self.all_tags:
                tags[name] = metadata.tags[name]
            elif (tag := files.find(name)) is not None:
                tags[name] = tag.snapshot.id
        return tags


class _Gap(Exception):
    """The changes between the published snapshot and the newest one are not known."""


def _is_next(before: Snapshot | None, snapshot: Snapshot) -> bool:
    """Return whether the snapshot is its predecessor with its own changes.

    It is not where a repair replaced all manifests. The predecessor may have expired.
    """
    return before is None or before.total_record_count + snapshot.delta_record_count == snapshot.total_record_count
