"""
ConfigError
  SnapshotMissing   asked for a snapshot that expired or was never made
  TagMissing        asked for a tag there is not
  BranchMissing     asked for a branch there is not
"""

from __future__ import annotations

from penstock.errors import ConfigError


class SnapshotMissing(ConfigError):
    pass


class TagMissing(ConfigError):
    pass


class BranchMissing(ConfigError):
    pass
