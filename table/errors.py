"""The errors of tables. Each is also an error of `penstock.errors`, which decides the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import CommitConflict, ConfigError, DecodeError, PenstockError, SchemaConflict, TableCorrupt


class SnapshotMissing(ConfigError):
    """A requested snapshot has expired or never existed."""

    advice = "penstock show TABLE --snapshots N  lists the snapshots that exist, with their times"


class SnapshotReplaced(ConfigError):
    """A reader has read snapshots that the table no longer has, because it was rolled back."""


class TagMissing(ConfigError):
    """A requested tag does not exist."""

    advice = "SHOW TAGS TABLE  in  penstock sql  lists the tags"


class BranchMissing(ConfigError):
    """A requested branch does not exist."""


class RowsUnread(ConfigError):
    """Rows that an overwrite would delete, and that its query cannot read before a compaction."""

    def __init__(self, message: str, partitions: Sequence[Mapping[str, object]], **facts: object) -> None:
        super().__init__(message, hint="compact the table, and then run the statement again", **facts)
        self.partitions = partitions


class HistoryExpired(CommitConflict):
    """Snapshots that are needed to detect conflicts have expired."""


class ManifestMissing(TableCorrupt):
    """A manifest or manifest list that the metadata refers to does not exist."""


class FormatUnknown(ConfigError):
    """A file format or codec that Penstock does not write."""


class TimestampOutOfRange(DecodeError):
    """A TIMESTAMP(7..9) beyond the years that nanoseconds can represent."""


class NullRefused(SchemaConflict):
    """A null in a NOT NULL column."""


class WorkerEnded(PenstockError):
    """A process that worked for an action of a table was killed, for example because the machine ran out of memory."""

    exit_code = 11
    retryable = True
