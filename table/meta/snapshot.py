"""A snapshot: what the table was after one commit (table-format 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

BATCH_IDENTIFIER = 9223372036854775807


class CommitKind(StrEnum):
    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True)
class Snapshot:
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
