"""A snapshot: the state of a table after a commit, and the JSON that describes it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, TypeAlias

from penstock.errors import TableCorrupt
from penstock.table.schema.json_file import JsonFile, pretty_json
from penstock.table.schema.parsed_files import ParsedFiles
from penstock.table.values.html import facts_html

# Java's Long.MAX_VALUE, which its batch jobs use.
BATCH_IDENTIFIER = 9223372036854775807
# Properties of the snapshots of a pipeline
PIPELINE = "penstock.pipeline"
TABLES = "penstock.tables"  # how many tables the batch changes
PARKED = "penstock.parked"  # the tables that were parked and lack the batch, as a JSON list, if there were any
# Marks are larger than any time, and exact in readers of JSON that have only 53 bits for a number.
_MARKS = 1 << 52


class CommitKind(StrEnum):
    """The kind of a commit, as the text in snapshot files."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """The content of a snapshot file."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int = 0
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    next_row_id: int = 0

    @property
    def mark(self) -> int:
        """Return a number that another snapshot with this id does not have: after a rollback ids are used again.

        The time alone is not enough: while the clock of a writer is behind, snapshots get the same time.
        """
        content = f"{self.time_millis} {self.base_manifest_list} {self.delta_manifest_list}"
        digest = hashlib.sha1(content.encode(), usedforsecurity=False).digest()
        return _MARKS | int.from_bytes(digest[:6], "big")

    def has_mark(self, mark: int) -> bool:
        """Return whether a stored mark belongs to this snapshot. Older versions stored its time."""
        return mark == (self.mark if mark >= _MARKS else self.time_millis)

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.time_millis / 1000, UTC)

    def __repr__(self) -> str:
        records = f"records={self.total_record_count} ({self.delta_record_count:+})"
        return f"Snapshot({self.id} {self.commit_kind} {self.time:%Y-%m-%d %H:%M:%S}Z {records} by {self.commit_user})"

    def _repr_html_(self) -> str:
        facts = {
            "kind": str(self.commit_kind),
            "committed": f"{self.time:%Y-%m-%d %H:%M:%S} UTC",
            "by": f"{self.commit_user}, {self.commit_identifier}",
            "records": self.total_record_count,
            "of these new": self.delta_record_count,
            "changelog rows": self.changelog_record_count,
            "schema": self.schema_id,
            "watermark": self.watermark,
            **self.properties,
        }
        return facts_html(f"snapshot {self.id}", facts)


VERSION = 3


def snapshot_json(snapshot: Snapshot) -> bytes:
    return pretty_json(snapshot_node(snapshot))


def snapshot_node(snapshot: Snapshot) -> dict[str, object]:
    """Return the JSON object of a snapshot.

    Keys whose value is None are left out, as Java does, except for changelogManifestList.
    """
    node: dict[str, object] = {
        "version": VERSION,
        "id": snapshot.id,
        "schemaId": snapshot.schema_id,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": snapshot.base_manifest_list_size,
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": snapshot.delta_manifest_list_size,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "changelogManifestListSize": snapshot.changelog_manifest_list_size,
        "indexManifest": snapshot.index_manifest,
        "commitUser": snapshot.commit_user,
        "commitIdentifier": snapshot.commit_identifier,
        "commitKind": snapshot.commit_kind.value,
        "timeMillis": snapshot.time_millis,
        # An unused member of an old log system, which Java 1.3 writes too.
        "logOffsets": {},
        "totalRecordCount": snapshot.total_record_count,
        "deltaRecordCount": snapshot.delta_record_count,
        "changelogRecordCount": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "statistics": snapshot.statistics,
        "properties": snapshot.properties or None,
        "nextRowId": snapshot.next_row_id,
    }
    return {key: value for key, value in node.items() if value is not None or key == "changelogManifestList"}


def parse_snapshot(data: bytes, where: str) -> Snapshot:
    """Return the snapshot in `data`, which was read from the file `where`.

    Raise TableCorrupt when it is not a snapshot.
    """
    found = _SNAPSHOTS.get(data, where)
    # Callers may change the properties, and the next one must not see that.
    return replace(found, properties=dict(found.properties))


def snapshot_of(node: JsonFile) -> Snapshot:
    # The first releases wrote no version.
    version = node.number("version", 1)
    if version > VERSION:
        raise TableCorrupt(
            f"snapshot version {version} is newer than {VERSION}, the newest supported version",
            file=node.where,
            hint="use a newer release of Penstock",
        )
    return Snapshot(
        id=node.number("id"),
        schema_id=node.number("schemaId"),
        base_manifest_list=node.text("baseManifestList"),
        delta_manifest_list=node.text("deltaManifestList"),
        commit_user=node.text("commitUser"),
        commit_identifier=node.number("commitIdentifier"),
        commit_kind=_kind(node),
        time_millis=node.number("timeMillis"),
        total_record_count=node.number("totalRecordCount", 0),
        delta_record_count=node.number("deltaRecordCount", 0),
        base_manifest_list_size=node.optional_number("baseManifestListSize"),
        delta_manifest_list_size=node.optional_number("deltaManifestListSize"),
        changelog_manifest_list=node.optional_text("changelogManifestList"),
        changelog_manifest_list_size=node.optional_number("changelogManifestListSize"),
        changelog_record_count=node.number("changelogRecordCount", 0),
        index_manifest=node.optional_text("indexManifest"),
        watermark=node.optional_number("watermark"),
        statistics=node.optional_text("statistics"),
        properties=node.text_map("properties"),
        next_row_id=node.number("nextRowId", 0),
    )


def _kind(node: JsonFile) -> CommitKind:
    text = node.text("commitKind")
    try:
        return CommitKind(text)
    except ValueError as reason:
        known = ", ".join(CommitKind)
        raise TableCorrupt(f"{text!r} is not a commit kind", file=node.where, known=known) from reason


# The snapshot whose rows new ones are computed from: "empty" if there was none, None if they are not computed from any.
Base: TypeAlias = Snapshot | Literal["empty"] | None


def base_snapshot(base: Base) -> Snapshot | None:
    return None if base == "empty" else base


# The properties of a pipeline's snapshots have the offsets of all partitions of its source, so some are long.
_SNAPSHOTS = ParsedFiles(lambda data, where: snapshot_of(JsonFile.parse(data, where)), files=1024, largest=16 << 10)
