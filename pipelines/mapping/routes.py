"""Routes: the target table of a source table, by patterns of names, with its constant columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.table_pattern import TablePattern

if TYPE_CHECKING:
    from penstock.pipelines.config import rules as spec


@dataclass(frozen=True, slots=True)
class Route:
    """A route.

    `sink` may contain {database}, {table}, groups of the pattern as $1, and a symbol that is replaced by the source
    table's name.
    """

    tables: TablePattern
    sink: str
    symbol: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    deletes: spec.Deletes | None = None

    @classmethod
    def of(cls, section: spec.RouteConfig) -> Route:
        route = cls(
            TablePattern.of(section.source_table),
            section.sink_table,
            section.replace_symbol,
            tuple(sorted(section.add_columns.items())),
            section.deletes,
        )
        if "." not in section.sink_table:
            raise ConfigError(f"sink-table {section.sink_table!r} names no database", hint="write database.table")
        for text in (section.sink_table, *section.add_columns.values()):
            for group in _groups(text):
                if group > route.tables.regex.groups:
                    raise ConfigError(
                        f"{text!r} asks for group ${group}, and the pattern has no such group",
                        source_table=section.source_table,
                        hint="put its part of source-table in brackets: $1 is the first, as in  shop.orders_(.*)",
                    )
        return route

    def target(self, database: str | None, table: str) -> str | None:
        found = self.tables.match(database, table)
        if found is None:
            return None
        name = self.sink.replace(self.symbol, "{table}") if self.symbol else self.sink
        return _filled(name, database, table, found.groups())

    def constants(self, database: str | None, table: str) -> tuple[tuple[str, str], ...]:
        found = self.tables.match(database, table)
        groups = found.groups() if found else ()
        return tuple((name, _filled(text, database, table, groups)) for name, text in self.columns)


def _groups(text: str) -> list[int]:
    return [int(part[:1]) for part in text.split("$")[1:] if part[:1].isdecimal()]


def _filled(text: str, database: str | None, table: str, groups: Sequence[str | None]) -> str:
    values = {"{database}": database or "", "{table}": table}
    values |= {f"${number}": group or "" for number, group in enumerate(groups, 1)}
    # All at once: names of the source may contain $1 or {table} themselves. The longest first, so that $1 is not found
    # in $10.
    names = sorted(values, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, names)), lambda found: values[found[0]], text)
