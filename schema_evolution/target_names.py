"""The mapping of source tables to target tables, and the filter that selects source tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TargetNames:
    """The rules that select source tables and name their target tables.

    Filters are regular expressions that must match the full source name; exclusion wins over inclusion. A null name
    passes.

    `mapping`, `database_prefix` and `database_suffix` are keyed by source names in lower case.
    """

    prefix: str = ""
    suffix: str = ""
    database_prefix: Mapping[str, str] = field(default_factory=dict)
    database_suffix: Mapping[str, str] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    including: str = ".*"
    excluding: str | None = None
    including_databases: str = ".*"
    excluding_databases: str | None = None
    merge_shards: bool = True
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        for pattern in (self.including, self.excluding, self.including_databases, self.excluding_databases):
            try:
                re.compile(pattern or "")
            except re.error as reason:
                raise ConfigError(
                    f"{pattern!r} is not a regular expression: {reason}",
                    hint="escape  . * + ? ( ) [ ] { }  with a backslash where they mean themselves",
                ) from reason

    def includes(self, database: str | None, table: str | None) -> bool:
        """Return whether the filters select the source table."""
        return _passes(table, self.including, self.excluding) and _passes(
            database, self.including_databases, self.excluding_databases
        )

    def target(self, database: str | None, table: str) -> str:
        """Return the target table's name in the target database."""
        source = table if self.merge_shards or database is None else f"{database}_{table}"
        mapped = self.mapping.get(source.lower())
        name = mapped if mapped is not None else self._affixed(database, source)
        return name if self.case_sensitive else name.lower()

    def _affixed(self, database: str | None, source: str) -> str:
        # A database-specific prefix does not disable the general suffix, nor the other way round.
        key = (database or "").lower()
        prefix = self.database_prefix.get(key, self.prefix)
        suffix = self.database_suffix.get(key, self.suffix)
        return f"{prefix}{source}{suffix}"


def _passes(name: str | None, including: str, excluding: str | None) -> bool:
    if name is None:
        return True
    if excluding and re.fullmatch(excluding, name):
        return False
    return re.fullmatch(including, name) is not None
