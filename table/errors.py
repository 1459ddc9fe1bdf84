"""The errors of tables.

ConfigError
  SnapshotMissing       a requested snapshot has expired or never existed
  TagMissing            a requested tag does not exist
  BranchMissing         a requested branch does not exist
  FormatUnknown         a file format or codec that Penstock does not write
CommitConflict
  HistoryExpired        snapshots that are needed to detect conflicts have expired
TableCorrupt
  ManifestMissing       a manifest or manifest list that the metadata refers to does not exist
DecodeError
  TimestampOutOfRange   a TIMESTAMP(7..9) beyond the years that nanoseconds can represent
SchemaConflict
  NullRefused           a null in a NOT NULL column
"""

from __future__ import annotations

from penstock.errors import CommitConflict, ConfigError, DecodeError, SchemaConflict, TableCorrupt


class SnapshotMissing(ConfigError):
    pass


class TagMissing(ConfigError):
    pass


class BranchMissing(ConfigError):
    pass


class HistoryExpired(CommitConflict):
    pass


class ManifestMissing(TableCorrupt):
    pass


class FormatUnknown(ConfigError):
    pass


class TimestampOutOfRange(DecodeError):
    pass


class NullRefused(SchemaConflict):
    pass
