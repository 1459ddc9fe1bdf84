"""A snapshot: the state of a table after a commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from penstock.table.values.html import facts_html

BATCH_IDENTIFIER = 9223372036854775807


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
