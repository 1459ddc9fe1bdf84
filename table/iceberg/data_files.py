"""The table's data files as entries of Iceberg's manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.table.buckets.layout import Layout
from penstock.table.iceberg.avro_schemas import avro_name
from penstock.table.iceberg.bounds import bound_bytes, partition_value
from penstock.table.iceberg.manifests import Content
from penstock.table.iceberg.types import shown_level
from penstock.table.iceberg.vectors import PuffinBlob
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import Bucket, FileKind, ManifestEntry
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.binary_row import decode_row
from penstock.table.values.types import AtomicType, Field


@dataclass(frozen=True, slots=True)
class IcebergFileChanges:
    """The files that a commit adds to those that Iceberg shows, and the files that it removes, by URI.

    `risen` are added files that Java may have shown before, on a lower level.
    """

    added: Mapping[str, ManifestEntry]
    removed: frozenset[str]
    risen: frozenset[str] = frozenset()


@dataclass(slots=True)
class DataFiles:
    """Describes the files of a table for Iceberg. `location` is the URI of the table's folder in the metadata."""

    store: TableStore
    schema: TableSchema
    location: str
    _layout: Layout = field(init=False)
    _least_level: int = field(init=False)
    _schemas: dict[int, TableSchema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._layout = Layout.of(self.schema)
        self._least_level = shown_level(self.schema)

    def uri(self, bucket: Bucket, file: DataFile) -> str:
        """Return the URI of a data file. It begins with the location, as Java Paimon writes and compares it."""
        if file.external_path is not None:
            return file.external_path
        return self.uri_in(bucket, file.name)

    def uri_in(self, bucket: Bucket, name: str) -> str:
        """Return the URI of a data file of a bucket by its name."""
        folder = self.store.paths.bucket_dir(self.folder(bucket[0]), bucket[1])
        return f"{self.location}{folder.removeprefix(self.store.paths.root)}/{name}"

    def folder(self, partition: bytes) -> str:
        """Return the folder of a partition in the folder of the table."""
        return self._layout.partition_dir(partition)

    def is_shown(self, entry: ManifestEntry) -> bool:
        """Return whether Iceberg shows the file. Rows that wait for a bucket are never shown."""
        return entry.file.level >= self._least_level and entry.bucket >= 0

    def changes(self, entries: Iterable[ManifestEntry], *, pure: bool) -> IcebergFileChanges:
        """Return the changes of a commit in Iceberg's terms. A file that only changes its level stays as it is.

        `pure`: the metadata shows files of the shown levels alone. Java makes metadata from a table's files in another
        way: it then shows single files of lower levels too.
        """
        added: dict[str, ManifestEntry] = {}
        removed: set[str] = set()
        lower: set[str] = set()
        for entry in entries:
            shown = self.is_shown(entry)
            uri = self.uri((entry.partition, entry.bucket), entry.file)
            if entry.kind is FileKind.DELETE:
                (removed if shown else lower).add(uri)
            elif shown:
                added[uri] = entry
        moved = added.keys() & removed
        new = {uri: entry for uri, entry in added.items() if uri not in moved}
        if pure:
            return IcebergFileChanges(new, frozenset(removed - moved))
        return IcebergFileChanges(new, frozenset((removed | lower) - added.keys()), frozenset(lower & new.keys()))

    def record(self, uri: str, entry: ManifestEntry) -> dict[str, Any]:
        """Return the record `data_file` of a data file."""
        counts, lower, upper = self._statistics(entry.file)
        return {
            **self._plain(Content.DATA, uri, entry.file.format, entry.partition),
            "record_count": entry.file.row_count,
            "file_size_in_bytes": entry.file.size,
            "null_value_counts": counts,
            "lower_bounds": lower,
            "upper_bounds": upper,
        }

    def vector_record(self, uri: str, size: int, blob: PuffinBlob, partition: bytes) -> dict[str, Any]:
        """Return the record `data_file` of a deletion vector in a Puffin file."""
        return {
            **self._plain(Content.DELETES, uri, "puffin", partition),
            "record_count": blob.cardinality,
            "file_size_in_bytes": size,
            "referenced_data_file": blob.data_file,
            "content_offset": blob.offset,
            "content_size_in_bytes": blob.length,
        }

    def _plain(self, content: Content, uri: str, format_: str, partition: bytes) -> dict[str, Any]:
        columns = zip(self._layout.partition_fields, self._layout.partition_values(partition), strict=True)
        return {
            "content": int(content),
            "file_path": uri,
            "file_format": format_,
            "partition": {avro_name(column.name): partition_value(value, column.type) for column, value in columns},
        }

    def _statistics(self, file: DataFile) -> tuple[list[Any], list[Any], list[Any]]:
        """Return null counts, lower and upper bounds as pairs of field id and value.

        Bounds have the column's newest type, as readers expect. Dropped columns have no bounds.
        """
        schema, stats = self._schema(file.schema_id), file.value_stats
        columns = schema.fields if file.value_stats_cols is None else schema.select(file.value_stats_cols)
        if len(stats.null_counts) != len(columns):  # no statistics were collected
            return [], [], []
        types = [column.type for column in columns]
        current = {field.id: field for field in self.schema.fields}
        bounds = zip(decode_row(stats.min_values, types), decode_row(stats.max_values, types), strict=True)
        counts, lower, upper = [], [], []
        for column, nulls, (least, most) in zip(columns, stats.null_counts, bounds, strict=True):
            if nulls is not None:
                counts.append(_pair(column, nulls))
            type_ = current[column.id].type if column.id in current else None
            if not isinstance(type_, AtomicType):
                continue
            low, high = bound_bytes(least, type_, upper=False), bound_bytes(most, type_, upper=True)
            lower += [] if low is None else [_pair(column, low)]
            upper += [] if high is None else [_pair(column, high)]
        return counts, lower, upper

    def _schema(self, schema_id: int) -> TableSchema:
        if schema_id == self.schema.id:
            return self.schema
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self.store.schemas.get(schema_id)
        return self._schemas[schema_id]


def _pair(column: Field, value: object) -> dict[str, object]:
    return {"key": column.id, "value": value}
