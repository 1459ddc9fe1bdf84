"""Target tables of several source tables, which cannot follow statements on one of them as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.ingest.connector_requests import SourceRequest

WAYS_OUT = "name one database (and one table), or --merge-shards false (naming: {merge-shards: false}), or leave out "


def has_shared_targets(request: SourceRequest, tables: Sequence[str], databases: str, names: str) -> bool:
    """Return whether several source tables may go to one target table. All names may be regular expressions."""
    parts = [table.partition(".") for table in tables] or [(databases, ".", names)]
    literal = is_one_name({database for database, _, _ in parts})
    if request.single_table:
        literal = literal and is_one_name({table for _, _, table in parts})
    return not literal and (request.single_table or request.merges_shards)


def is_one_name(patterns: set[str]) -> bool:
    """Return whether the patterns are one literal name."""
    return len(patterns) == 1 and patterns.pop().replace("_", "").replace("-", "").isalnum()


def refuse_shared(request: SourceRequest, tables: Sequence[str], databases: str, names: str) -> None:
    """Raise ConfigError if a table that is to be emptied with its source may have several sources."""
    if has_shared_targets(request, tables, databases, names):
        raise ConfigError(
            "a target table that may have several source tables cannot be emptied with one of them",
            hint=WAYS_OUT + "--on-truncate and --on-drop",
        )
