"""
ConfigError
  SnapshotMissing   asked for a snapshot that expired or was never made
  TagMissing        asked for a tag there is not
  BranchMissing     asked for a branch there is not
CommitConflict
  HistoryExpired    snapshots that were needed to look for conflicts have expired
TableCorrupt
  ManifestMissing   a manifest, or a list of manifests, that the metadata names is not there
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
