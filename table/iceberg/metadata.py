"""The file metadata.json: the columns, snapshots and tags of a table in Iceberg's form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from penstock.errors import TableCorrupt
from penstock.table.iceberg.avro_schemas import FIRST_PARTITION_ID
from penstock.table.iceberg.types import highest_id
from penstock.table.meta.snapshot import Snapshot
from penstock.table.schema.json_file import JsonFile
from penstock.table.schema.table_schema import TableSchema

# Java removes all properties when it publishes.
_PUBLISHER, _PURE = "penstock.publisher", "penstock.pure"
# A key in the summaries of snapshots. Java ignores it, and drops it from the metadata that it writes.
_MARK = "penstock.mark"
_ENDLESS = 9223372036854775807  # tags end in the table, not by Iceberg's rules


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """One snapshot, with the id of the table's snapshot. `manifest_list` is a URI.

    `mark` is the mark of the table's snapshot; 0 if Java or an older version published it.
    """

    id: int
    time_millis: int
    manifest_list: str
    schema_id: int
    operation: str = "append"
    mark: int = 0

    @property
    def node(self) -> dict[str, Any]:
        summary = {"operation": self.operation, **({_MARK: str(self.mark)} if self.mark else {})}
        return {
            "sequence-number": self.id,
            "snapshot-id": self.id,
            "timestamp-ms": self.time_millis,
            "summary": summary,
            "manifest-list": self.manifest_list,
            "schema-id": self.schema_id,
        }


@dataclass(frozen=True, slots=True)
class IcebergMetadata:
    """The content of one metadata.json. The newest snapshot, the last one, is the current one.

    `schemas` are nodes of the JSON. `tags` maps names to snapshot ids. `spec` is the partition spec. `by_penstock`: the
    current snapshot was published by Penstock. `pure`: all snapshots were published by it, so that only files of the
    levels from `shown_level` on are shown.
    """

    version: int
    uuid: str
    location: str
    schemas: tuple[Mapping[str, Any], ...]
    spec: Mapping[str, Any]
    snapshots: tuple[IcebergSnapshot, ...]
    tags: Mapping[str, int]
    current_id: int
    by_penstock: bool
    pure: bool = False

    @property
    def current(self) -> IcebergSnapshot:
        return next(snapshot for snapshot in self.snapshots if snapshot.id == self.current_id)

    def check(self) -> None:
        """Raise an error of Python when parts are missing without which the next snapshot cannot be published."""
        if not self.schemas or all(snapshot.id != self.current_id for snapshot in self.snapshots):
            raise ValueError("it has no schema or no current snapshot")
        for schema in self.schemas:
            highest_id(schema)
        for field in self.spec["fields"]:
            int(field["field-id"])
        # A fraction where Iceberg has only whole numbers cannot be written again.
        json.dumps([*self.schemas, self.spec])

    @property
    def schema_id(self) -> int:
        """Return the id of the newest schema."""
        return int(self.schemas[-1]["schema-id"])

    def shows(self, snapshot: Snapshot) -> bool:
        """Return whether the current snapshot is this one of the table, and not another one with the same id.

        Penstock publishes a snapshot under its own time, Java under the time of the publication.
        """
        if self.by_penstock:
            return snapshot.has_mark(self.current.mark or self.current.time_millis)
        return self.current.time_millis >= snapshot.time_millis

    def at(self, snapshot_id: int) -> IcebergMetadata:
        """Return the metadata as it was when this snapshot was the current one."""
        kept = tuple(snapshot for snapshot in self.snapshots if snapshot.id <= snapshot_id)
        return replace(self, snapshots=kept, current_id=snapshot_id)

    def encode(self, now_millis: int) -> bytes:
        """Return the file's content."""
        fields = [field["field-id"] for field in self.spec["fields"]]
        history = self._history
        node: dict[str, Any] = {
            "format-version": self.version,
            "table-uuid": self.uuid,
            "location": self.location,
            "last-sequence-number": self.current_id,
            "last-updated-ms": max(now_millis, history[-1]["timestamp-ms"]),
            "last-column-id": max(highest_id(schema) for schema in self.schemas),
            "schemas": list(self.schemas),
            "current-schema-id": self.schema_id,
            "partition-specs": [self.spec],
            "default-spec-id": 0,
            "last-partition-id": max(fields, default=FIRST_PARTITION_ID - 1),
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": [snapshot.node for snapshot in self.snapshots],
            "current-snapshot-id": self.current_id,
            "properties": self._properties,
            "refs": self._tag_nodes,
            "snapshot-log": history,
        }
        if self.version == 3:
            node["next-row-id"] = 0  # rows have no Iceberg row ids
        return json.dumps(node).encode()

    @property
    def _history(self) -> list[dict[str, int]]:
        """Return when each snapshot became the current one.

        Iceberg's readers refuse a history that goes back by more than a minute, as the times of snapshots do after a
        clock was set back or when writers on several machines have different clocks.
        """
        times = accumulate((snapshot.time_millis for snapshot in self.snapshots), max)
        return [
            {"snapshot-id": snapshot.id, "timestamp-ms": at} for snapshot, at in zip(self.snapshots, times, strict=True)
        ]

    @property
    def _properties(self) -> dict[str, str]:
        if not self.by_penstock:
            return {}
        return {_PUBLISHER: "penstock", **({_PURE: "true"} if self.pure else {})}

    @property
    def _tag_nodes(self) -> dict[str, Any]:
        return {
            name: {"snapshot-id": number, "type": "tag", "max-ref-age-ms": _ENDLESS}
            for name, number in sorted(self.tags.items())
            if name != "main"  # Iceberg's name of the branch
        }


def parse_metadata(data: bytes, where: str) -> IcebergMetadata:
    """Return the metadata in `data`, which was read from the file `where` and may be Java's.

    Raise TableCorrupt when it is not Iceberg metadata.
    """
    node = JsonFile.parse(data, where)
    values: Mapping[str, Any] = node.values
    try:
        found = IcebergMetadata(
            node.number("format-version"),
            node.text("table-uuid"),
            node.text("location"),
            tuple(sorted(values["schemas"], key=lambda schema: int(schema["schema-id"]))),
            values["partition-specs"][0],
            tuple(_snapshot(snapshot) for snapshot in values["snapshots"]),
            {name: int(ref["snapshot-id"]) for name, ref in (values.get("refs") or {}).items() if ref["type"] == "tag"},
            node.number("current-snapshot-id"),
            (values.get("properties") or {}).get(_PUBLISHER) == "penstock",
            (values.get("properties") or {}).get(_PURE) == "true",
        )
        found.check()
        return found
    except (LookupError, TypeError, ValueError, AttributeError) as reason:
        raise TableCorrupt(
            f"not Iceberg metadata: {reason!r:.200}",
            file=where,
            hint="penstock publish-iceberg  makes the metadata again from the table",
        ) from reason


def _snapshot(node: Mapping[str, Any]) -> IcebergSnapshot:
    return IcebergSnapshot(
        int(node["snapshot-id"]),
        int(node["timestamp-ms"]),
        str(node["manifest-list"]),
        int(node["schema-id"]),
        str(node["summary"]["operation"]),
        int(node["summary"].get(_MARK, 0)),
    )


def partition_spec(schema: TableSchema) -> dict[str, Any]:
    """Return the partition columns as an Iceberg partition spec. They never change."""
    fields = [
        {
            "name": column.name,
            "transform": "identity",
            "source-id": column.id,
            "field-id": FIRST_PARTITION_ID + place,
        }
        for place, column in enumerate(schema.select(schema.partition_keys))
    ]
    return {"spec-id": 0, "fields": fields}


def kept_tags(tags: Mapping[str, int], snapshots: Sequence[IcebergSnapshot]) -> dict[str, int]:
    """Return the tags of the snapshots. Readers refuse metadata in which a tag names another snapshot."""
    known = {snapshot.id for snapshot in snapshots}
    return {name: number for name, number in tags.items() if number in known}
