"""Reading and writing of Iceberg's manifests and manifest lists."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.errors import TableCorrupt
from penstock.table.iceberg.avro_files import avro_codec, decode_avro, encode_avro
from penstock.table.iceberg.avro_schemas import avro_name, entry_schema, list_schema
from penstock.table.iceberg.bounds import bound_bytes, internal_value
from penstock.table.iceberg.manifests import (
    Content,
    IcebergEntry,
    Manifest,
    Status,
    entry_of,
    entry_record,
    manifest_of,
    manifest_record,
)
from penstock.table.iceberg.metadata import partition_spec
from penstock.table.iceberg.place import IcebergPlace
from penstock.table.iceberg.types import iceberg_schema
from penstock.table.options.iceberg import ICEBERG_FORMAT_VERSION, ICEBERG_MANIFEST_LEGACY_VERSION
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, DataType, Field

T = TypeVar("T")
_MOST_ENTRIES = 10_000  # of one manifest, so that one is held in memory at a time


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """Reads and writes the manifests and manifest lists of one table, by its newest schema.

    `written` are the names of all files that were written.
    """

    place: IcebergPlace
    schema: TableSchema
    new_uuid: Callable[[], str]
    written: list[str] = field(default_factory=list)

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        return self.schema.select(self.schema.partition_keys)

    def read_list(self, uri: str) -> list[Manifest]:
        """Return the manifests of a manifest list."""
        return self._decoded(uri, manifest_of)

    def read(self, manifest: Manifest) -> list[IcebergEntry]:
        """Return the entries of a manifest."""
        return self._decoded(manifest.path, lambda record: entry_of(record, manifest))

    def _decoded(self, uri: str, decode: Callable[[dict[str, Any]], T]) -> list[T]:
        path = self.place.path_of_file(uri)
        try:
            return [decode(record) for record in decode_avro(self.place.storage.read(path), path)]
        except (LookupError, TypeError, ValueError) as reason:
            raise TableCorrupt(
                f"not a manifest of Iceberg: {reason!r:.200}",
                file=path,
                hint="penstock publish-iceberg  makes the metadata again from the table",
            ) from reason

    def write_list(self, manifests: Sequence[Manifest], snapshot: int) -> str:
        """Write a manifest list and return its URI."""
        legacy, name = self.schema.typed[ICEBERG_MANIFEST_LEGACY_VERSION], f"snap-{snapshot}-{self.new_uuid()}.avro"
        records = [manifest_record(manifest, legacy=legacy) for manifest in manifests]
        header = {"snapshot-id": str(snapshot), "sequence-number": str(snapshot), "format-version": self._version}
        self.put(name, encode_avro(list_schema(legacy=legacy), records, self._codec, header, name))
        return self.place.uri_of_file(name)

    def write(self, entries: Iterable[IcebergEntry], content: Content, snapshot: int) -> list[Manifest]:
        """Write the entries into as many manifests as needed; without entries, write no manifest."""
        written: list[Manifest] = []
        part: list[IcebergEntry] = []
        for entry in entries:
            part.append(entry)
            if len(part) == _MOST_ENTRIES:
                written.append(self._write_one(part, content, snapshot))
                part = []
        return [*written, self._write_one(part, content, snapshot)] if part else written

    def _write_one(self, entries: Sequence[IcebergEntry], content: Content, snapshot: int) -> Manifest:
        name = f"{self.new_uuid()}-m0.avro"
        records = map(entry_record, entries)
        data = encode_avro(entry_schema(self.partition_fields), records, self._codec, self._header(content), name)
        self.put(name, data)
        files, rows = Counter[Status](), Counter[Status]()
        for entry in entries:
            files[entry.status] += 1
            rows[entry.status] += entry.file["record_count"]
        return Manifest(
            self.place.uri_of_file(name),
            len(data),
            content,
            snapshot,
            min(entry.sequence for entry in entries),
            snapshot,
            (files[Status.ADDED], files[Status.EXISTING], files[Status.DELETED]),
            (rows[Status.ADDED], rows[Status.EXISTING], rows[Status.DELETED]),
            self._summaries(entries),
        )

    def put(self, name: str, data: bytes) -> None:
        """Write a file of the metadata folder."""
        self.written.append(name)
        self.place.storage.write(f"{self.place.folder}/{name}", data)

    @property
    def _codec(self) -> str:
        return avro_codec(self.schema.typed)

    @property
    def _version(self) -> str:
        return str(self.schema.typed[ICEBERG_FORMAT_VERSION])

    def _header(self, content: Content) -> dict[str, str]:
        return {
            "schema": json.dumps(iceberg_schema(self.schema)),
            "schema-id": str(self.schema.id),
            "partition-spec": json.dumps(partition_spec(self.schema)["fields"]),
            "partition-spec-id": "0",
            "format-version": self._version,
            "content": "data" if content is Content.DATA else "deletes",
        }

    def _summaries(self, entries: Sequence[IcebergEntry]) -> tuple[dict[str, Any], ...]:
        return tuple(
            _summary({entry.file["partition"][avro_name(field.name)] for entry in entries}, field.type)
            for field in self.partition_fields
        )


def _summary(values: set[Any], type_: DataType) -> dict[str, Any]:
    """Return the range of the values of a partition column, as partitions contain them."""
    assert isinstance(type_, AtomicType)
    known = sorted(internal_value(value, type_) for value in values if value is not None)
    nan = any(isinstance(value, float) and math.isnan(value) for value in known)
    bounded = [] if nan else known  # NaN has no place in an order
    return {
        "contains_null": None in values,
        "contains_nan": nan,
        "lower_bound": bound_bytes(bounded[0], type_, upper=False) if bounded else None,
        "upper_bound": bound_bytes(bounded[-1], type_, upper=True) if bounded else None,
    }
