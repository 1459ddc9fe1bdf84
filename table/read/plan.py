"""Planning: from a snapshot and a filter to splits, the parts of a bucket that can be read independently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, ManifestEntry, ManifestFile
from penstock.table.meta.live import all_manifests, index_entries, live_entries, manifest_entries, merged
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.read.column_conditions import required_values
from penstock.table.read.pruning import key_facts, partition_facts, possible, value_facts
from penstock.table.read.splits import Split, VectorPlace, bucket_splits, invisible_level_0, is_settled
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.cast_rules import has_same_hashes
from penstock.table.values.hashing import bucket_of, hash_rows
from penstock.table.values.html import rows_html
from penstock.table.values.types import Field

# Which files of a table with keys a plan contains: those above level 0, or those of the last full compaction of their
# bucket.
KeptLevels: TypeAlias = Literal["compacted", "fully-compacted"]


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The splits to read; `snapshot` is None for a table without snapshots."""

    snapshot: Snapshot | None
    splits: tuple[Split, ...]

    @property
    def files(self) -> int:
        return sum(len(split.files) for split in self.splits)

    @property
    def rows(self) -> int:
        """Return the number of rows before merging and filtering."""
        return sum(split.rows for split in self.splits)

    @property
    def size(self) -> int:
        return sum(split.size for split in self.splits)

    def __repr__(self) -> str:
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.id}"
        return f"Plan({at}: {len(self.splits)} splits, {self.files} files, {self.rows} rows, {self.size} bytes)"

    def _repr_html_(self) -> str:
        names = ("bucket", "files", "rows", "bytes", "read")
        rows = [
            (split.bucket, len(split.files), split.rows, split.size, "as it is" if split.raw else "merged by key")
            for split in self.splits
        ]
        return f"<b>{escape(repr(self))}</b>{rows_html(names, rows)}"


def plan_state(
    store: TableStore,
    layout: Layout,
    snapshot: Snapshot | None,
    where: pc.Expression | None = None,
    *,
    keep_levels: KeptLevels | None = None,
    keep_file: Callable[[DataFile], bool] | None = None,
) -> Plan:
    """Return the splits with the table's rows at `snapshot`, without splits that `where` rules out by statistics."""
    if snapshot is None:
        return Plan(None, ())
    entries = _entries(store, layout, snapshot, where)
    if keep_levels is not None:
        entries = _of_levels(entries, keep_levels)
    skip_young = invisible_level_0(layout)
    # Rows in postponed buckets are not visible before a compaction distributes them.
    entries = [
        entry
        for entry in entries
        if entry.bucket >= 0
        and not (skip_young and entry.file.level == 0)
        and (keep_file is None or keep_file(entry.file))
    ]
    if where is not None:
        entries = _pruned(store, layout, entries, where)
    vectors = _vectors(store, layout, snapshot)
    splits = [
        split for bucket, group in grouped(entries).items() for split in bucket_splits(layout, bucket, group, vectors)
    ]
    return Plan(snapshot, tuple(splits))


def _of_levels(entries: list[ManifestEntry], kept: KeptLevels) -> list[ManifestEntry]:
    """Return the entries of these levels.

    The last full compaction of a bucket wrote its highest level with files, which is below the top level if the number
    of levels was raised since. Its changelog has shown these rows, and no later one shows them again.
    """
    above = [entry for entry in entries if entry.file.level > 0]
    if kept == "compacted":
        return above
    return [
        entry
        for group in grouped(above).values()
        for highest in [max(entry.file.level for entry in group)]
        for entry in group
        if entry.file.level == highest
    ]


def hidden_file(store: TableStore, layout: Layout, snapshot: Snapshot, covers: Callable[[bytes], bool]) -> str | None:
    """Return the name of a file of these partitions with rows that scans do not show yet, or None."""
    return next((entry.file.name for entry in hidden_entries(store, layout, snapshot, covers)), None)


def hidden_entries(
    store: TableStore, layout: Layout, snapshot: Snapshot, covers: Callable[[bytes], bool]
) -> Iterator[ManifestEntry]:
    """Yield the files of these partitions with rows that scans do not show yet."""
    waits = invisible_level_0(layout)
    for entry in live_entries(store, snapshot):
        if covers(entry.partition) and (entry.bucket < 0 or (waits and entry.file.level == 0)):
            yield entry


def waiting_partitions(
    store: TableStore, layout: Layout, snapshot: Snapshot, where: pc.Expression | None
) -> list[bytes]:
    """Return the partitions in which rows wait for the compaction of their bucket, unless `where` rules them out."""
    if not invisible_level_0(layout):
        return []
    hidden = hidden_entries(store, layout, snapshot, lambda _: True)
    partitions = list({entry.partition for entry in hidden if entry.bucket >= 0})
    if where is None or not layout.schema.partition_keys:
        return partitions
    facts = [partition_facts(layout, partition, 1) for partition in partitions]
    return possible(partitions, facts, arrow_schema(layout.schema.fields), where)


def unseen_partitions(store: TableStore, layout: Layout, snapshot: Snapshot) -> set[bytes]:
    """Return the partitions that have rows, but show none of them to scans until a compaction."""
    waits = invisible_level_0(layout)
    if not waits and layout.mode is not BucketMode.POSTPONE:
        return set()
    hidden, shown = set[bytes](), set[bytes]()
    for entry in live_entries(store, snapshot):
        found = hidden if entry.bucket < 0 or (waits and entry.file.level == 0) else shown
        found.add(entry.partition)
    return hidden - shown


def grouped(entries: Collection[ManifestEntry]) -> dict[Bucket, list[ManifestEntry]]:
    """Return the entries by partition and bucket."""
    groups: dict[Bucket, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.partition, entry.bucket), []).append(entry)
    return groups


def _entries(store: TableStore, layout: Layout, snapshot: Snapshot, where: pc.Expression | None) -> list[ManifestEntry]:
    manifests = all_manifests(store, snapshot)
    # By partition only: the entries that add and delete a file have the same one, so both are read or neither.
    if where is not None and layout.schema.partition_keys and len(manifests) > 1:
        manifests = _possible_manifests(layout, manifests, where)
    return merged(entry for manifest in manifests for entry in manifest_entries(store, manifest, snapshot))


def _possible_manifests(layout: Layout, manifests: list[ManifestFile], where: pc.Expression) -> list[ManifestFile]:
    facts = [
        partition_facts(layout, manifest.partition_stats, manifest.added_files + manifest.deleted_files)
        for manifest in manifests
    ]
    return possible(manifests, facts, arrow_schema(layout.schema.fields), where)


def _pruned(
    store: TableStore, layout: Layout, entries: list[ManifestEntry], where: pc.Expression
) -> list[ManifestEntry]:
    schema = arrow_schema(layout.schema.fields)
    if layout.schema.partition_keys:
        partitions = list({entry.partition for entry in entries})
        facts = [partition_facts(layout, partition, 1) for partition in partitions]
        kept = set(possible(partitions, facts, schema, where))
        entries = [entry for entry in entries if entry.partition in kept]
    entries = _in_possible_buckets(store, layout, entries, schema, where)
    if not layout.has_keys:
        return possible(entries, [value_facts(store, layout, entry.file) for entry in entries], schema, where)
    # A file's facts include its partition's, so a file can also be ruled out by conditions such as `partition = x OR
    # key = y`.
    places = {partition: partition_facts(layout, partition, 1) for partition in {entry.partition for entry in entries}}
    facts = [[*places[entry.partition], *key_facts(layout, entry.file)] for entry in entries]
    entries = possible(entries, facts, schema, where)
    # Value statistics rule out a file only when no other file can contain a newer row of the same key.
    alone = [entry for group in grouped(entries).values() if is_settled([e.file for e in group]) for entry in group]
    chosen = {id(e) for e in possible(alone, [value_facts(store, layout, e.file) for e in alone], schema, where)}
    settled = {id(entry) for entry in alone}
    return [entry for entry in entries if id(entry) not in settled or id(entry) in chosen]


def _in_possible_buckets(
    store: TableStore, layout: Layout, entries: list[ManifestEntry], schema: pa.Schema, where: pc.Expression
) -> list[ManifestEntry]:
    fields = layout.schema.select(layout.bucket_keys)
    if layout.mode is not BucketMode.FIXED or layout.bucket_function != "default" or len(fields) != 1:
        return entries
    values = required_values(fields[0], schema, where)
    # None means that the condition allows other values, so the row may be in any bucket.
    if values is None or not _had_same_hashes(store, layout.schema, fields[0]):
        return entries
    column = pa.array(values, arrow_schema(fields).field(0).type)
    hashes = hash_rows([column], [fields[0].type])
    # Partitions may have different numbers of buckets until each of them is rewritten.
    wanted = {total: set(bucket_of(hashes, total).tolist()) for total in {entry.total_buckets for entry in entries}}
    return [entry for entry in entries if entry.bucket in wanted[entry.total_buckets]]


def _had_same_hashes(store: TableStore, schema: TableSchema, key: Field) -> bool:
    """Return whether the bucket key had the same hashes in all versions of the schema.

    Java lets a bucket key become another type in a table without a primary key, and rows stay in the buckets that they
    were written to, also when they are compacted.
    """
    if schema.primary_keys or not schema.id:
        return True
    versions = (store.schemas.get(number) for number in store.schemas.ids() if number < schema.id)
    types = (field.type for version in versions for field in version.fields if field.id == key.id)
    return all(has_same_hashes(type_, key.type) for type_ in types)


def _vectors(store: TableStore, layout: Layout, snapshot: Snapshot) -> dict[Bucket, dict[str, VectorPlace]]:
    found: dict[Bucket, dict[str, VectorPlace]] = {}
    if not layout.schema.typed[DELETION_VECTORS_ENABLED]:
        return found
    for entry in index_entries(store, snapshot):
        if entry.index_type == DELETION_VECTORS:
            bucket = (entry.partition, entry.bucket)
            places = found.setdefault(bucket, {})
            for part in entry.vector_ranges or ():
                places[part.data_file] = VectorPlace(entry.name, bucket, part, entry.external_path)
    return found
