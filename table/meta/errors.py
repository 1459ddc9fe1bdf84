"""Errors about snapshots, tags, branches and manifests.

ConfigError
  SnapshotMissing   a requested snapshot has expired or never existed
  TagMissing        a requested tag does not exist
  BranchMissing     a requested branch does not exist
CommitConflict
  HistoryExpired    snapshots that are needed to detect conflicts have expired
TableCorrupt
  ManifestMissing   a manifest or manifest list that the metadata refers to does not exist
"""

from __future__ import annotations

from penstock.errors import CommitConflict, ConfigError, TableCorrupt


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
