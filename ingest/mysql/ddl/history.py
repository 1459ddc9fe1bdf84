"""Table definitions at every position of the binlog.

The driver maintains the history: the definitions at the snapshot's position, then every DDL in binlog order. A read
task gets the part that covers its range. If the binlog contains column names (binlog_row_metadata FULL), the history
only adds details that the binlog lacks; if not, the history decides, and a gap in it stops the reader.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.definition_records import definition_of, definition_record
from penstock.ingest.mysql.ddl.statements import DropTablesStatement, Unreadable, subjects
from penstock.ingest.mysql.ddl.tables import TableChange, Tables
from penstock.ingest.mysql.definition import TableDefinition
from penstock.ingest.mysql.errors import DdlNotUnderstood
from penstock.ingest.mysql.position import DAMAGED_OFFSETS, file_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock.ingest.mysql.ddl.query import Query
    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.connection import ServerFacts
    from penstock.ingest.mysql.table_choice import TableChoice

log = logging.getLogger(__name__)
EXCLUDED = "excluded"
_NOT_READ = (
    "the names in this statement cannot be read, so it is not followed; see it with  mysqlbinlog , and start once "
    "with --reset TABLE for a table that it changed"
)
Name = tuple[str, str]
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    """A table's definition from a binlog position on.

    None if there is no table, or if `unclear` says why it is unknown.

    `left_out` is the reason why the table's rows are not captured. A table without key keeps its definition, because a
    key may be added later; without a definition its rows are skipped without being read.
    """

    name: Name
    file: str
    pos: int
    definition: TableDefinition | None
    unclear: str = ""
    left_out: str = ""

    @property
    def place(self) -> Place:
        return file_number(self.file), self.pos

    @property
    def is_captured(self) -> bool:
        return self.definition is not None and not self.left_out

    def to_json(self) -> dict[str, object]:
        record: dict[str, object] = {"table": list(self.name), "file": self.file, "pos": self.pos}
        if self.definition is not None:
            record |= definition_record(self.definition)
        reasons = {"unclear": self.unclear, "left_out": self.left_out}
        return record | {name: reason for name, reason in reasons.items() if reason}

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> DefinitionVersion:
        match record:
            case {"table": [str(database), str(table)], "file": str(file), "pos": int(pos)}:
                unclear, left_out = str(record.get("unclear", "")), str(record.get("left_out", ""))
                definition = definition_of(database, table, record)
                return cls((database, table), file, pos, definition, unclear, left_out)
        raise ConfigError("a record of the schema history is not valid", record=dict(record), hint=DAMAGED_OFFSETS)


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The versions that matter to one range, for a read task."""

    versions: Mapping[Name, tuple[DefinitionVersion, ...]]

    def is_skipped(self, name: Name, file: str, pos: int) -> bool:
        version = _version_at(self.versions.get(name, ()), (file_number(file), pos))
        return version is not None and bool(version.left_out) and version.definition is None

    def definition_at(self, name: Name, file: str, pos: int, *, named: bool) -> TableDefinition | None:
        """Return the definition; DdlNotUnderstood for an unclear version unless the binlog itself names the columns."""
        version = _version_at(self.versions.get(name, ()), (file_number(file), pos))
        if version is None:
            return None
        if version.unclear and not named:
            raise DdlNotUnderstood(
                "a table was altered by a statement that could not be parsed",
                table=".".join(name),
                file=version.file,
                pos=version.pos,
                reason=version.unclear,
                hint="read the tables again (--resnapshot); with binlog_row_metadata = FULL the binlog contains "
                "the column names itself",
            )
        return version.definition


def _version_at(
    versions: tuple[DefinitionVersion, ...] | list[DefinitionVersion], place: Place
) -> DefinitionVersion | None:
    found = bisect_right(versions, place, key=lambda version: version.place)
    return versions[found - 1] if found else None


@dataclass(slots=True)
class SchemaHistory:
    """All versions of all tables. `unsaved` are records that must be stored before a batch that relies on them."""

    mariadb: bool = False
    lower_names: bool = False
    tables: Tables = field(default_factory=Tables)
    versions: dict[Name, list[DefinitionVersion]] = field(default_factory=dict)
    unsaved: list[DefinitionVersion] = field(default_factory=list)

    @classmethod
    def of_server(cls, facts: ServerFacts, charsets: Mapping[str, str], spelled: Collection[str] = ()) -> SchemaHistory:
        """Return an empty history; `charsets` are the default character sets of the server's databases.

        Values of the types `spelled` are texts with the digits of their type.
        """
        return cls(facts.is_mariadb, facts.lower_case_names, Tables(charsets=charsets, spelled=spelled))

    def start(self, definitions: Iterable[TableDefinition], at: LogPosition) -> None:
        """Record these definitions as valid from a position on."""
        for definition in definitions:
            self.tables.known[definition.name] = definition
            self._note(DefinitionVersion(definition.name, at.file, at.pos, definition))

    def leave_out(self, tables: Mapping[Name, TableDefinition | None], reason: str, at: LogPosition) -> None:
        """Record tables whose rows are not captured; with their definition if the table could be captured later."""
        for name, definition in tables.items():
            if definition is not None:
                self.tables.known[name] = definition
            self._note(DefinitionVersion(name, at.file, at.pos, definition, left_out=reason))

    def was_captured(self, name: Name) -> bool:
        """Return whether the table's rows were ever captured: its definition was known then."""
        return any(version.is_captured for version in self.versions.get(name, ()))

    def restore(self, records: Iterable[DefinitionVersion]) -> None:
        """Load stored versions, in the order in which they were stored."""
        for version in records:
            self._note(version)
            if version.definition is not None:
                self.tables.known[version.name] = version.definition
            else:
                self.tables.known.pop(version.name, None)
        self.unsaved.clear()

    def apply(
        self, query: Query, file: str, pos: int, includes: Callable[[str, str], bool] = lambda *_: True
    ) -> list[TableChange]:
        """Apply the statement logged at this position to the definitions.

        Tables that are not included are followed too, because they may be renamed to included names. Such a table
        counts as left out, and is new once it is included. A statement at or before the position of a table's newest
        version changes nothing for that table: so reading the binlog twice has the same result, and a table that was
        added later is not altered by events before its start.
        """
        place = (file_number(file), pos)
        changes: list[TableChange] = []
        for statement in parse_ddl(query, mariadb=self.mariadb, lower_names=self.lower_names):
            if isinstance(statement, DropTablesStatement):
                # Each of its tables counts for itself.
                statement = DropTablesStatement(
                    tuple(name for name in statement.names if not self._is_known_from(name, place))
                )
            if isinstance(statement, Unreadable):
                reason = statement.reason
                log.warning("event=ddl_not_read file=%s pos=%d reason=%s note=%s", file, pos, reason, _NOT_READ)
            if not any(self._is_known_from(name, place) for name in subjects(statement)):
                changes += self.tables.apply(statement)
        for change in changes:
            if change.kind in {"truncate", "rows-moved"}:
                continue
            if change.old_name is not None:
                self._note(self._version(change.old_name, file, pos, includes))
            unclear, left_out = (change.detail if change.kind == kind else "" for kind in ("unclear", "left-out"))
            self._note(self._version(change.name, file, pos, includes, unclear, left_out))
        return changes

    def _version(
        self,
        name: Name,
        file: str,
        pos: int,
        includes: Callable[[str, str], bool],
        unclear: str = "",
        left_out: str = "",
    ) -> DefinitionVersion:
        """Return the table's definition after a statement, left out if the table is not included."""
        reason = left_out or ("" if includes(*name) else EXCLUDED)
        return DefinitionVersion(name, file, pos, self.tables.known.get(name), unclear, reason)

    def _is_known_from(self, name: Name, place: Place) -> bool:
        """Return whether the table's definition is already known as of this position or a later one."""
        versions = self.versions.get(name)
        return versions is not None and versions[-1].place >= place

    def _note(self, version: DefinitionVersion) -> None:
        known = self.versions.setdefault(version.name, [])
        # Several changes of one statement have the same position. The last one counts.
        if known and known[-1].place == version.place:
            known[-1] = version
        else:
            known.append(version)
        self.unsaved.append(version)

    def definition_at(self, name: Name, file: str, pos: int) -> TableDefinition | None:
        version = _version_at(self.versions.get(name, []), (file_number(file), pos))
        return version.definition if version else None

    def had_column(self, name: Name, column: str, file: str, pos: int) -> bool:
        """Return whether the table had a column of this name before a position."""
        earlier = [version for version in self.versions.get(name, ()) if version.place < (file_number(file), pos)]
        return any(
            column == had.name for version in earlier if version.definition for had in version.definition.columns
        )

    def part(self, choice: TableChoice, start: LogPosition, end: LogPosition) -> HistoryPart:
        """Return the versions that a read task needs for the range [start, end)."""
        first, last = (file_number(start.file), start.pos), (file_number(end.file), end.pos)
        chosen: dict[Name, tuple[DefinitionVersion, ...]] = {}
        for name, versions in self.versions.items():
            if choice.includes(*name):
                base = _version_at(versions, first)
                inside = [version for version in versions if first < version.place < last]
                chosen[name] = (*([base] if base else ()), *inside)
        return HistoryPart({name: found for name, found in chosen.items() if found})
