"""The schema history of the captured tables: recorded in the checkpoint, loaded from it after a restart."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.mysql.binlog.log_plan import LogPlan
from penstock.ingest.mysql.captured_tables import captured_facts
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.catalog import BASE_TABLE, LOGGED, TableName, definitions, list_tables
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.settings import FollowSettings
from penstock.storage.state_folder import StateFolder

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

log = logging.getLogger(__name__)

# What to do when a file of the history is lost or damaged.
_RESTORED = "restore the checkpoint, or start the pipeline with a new one"


@dataclass(frozen=True, slots=True)
class Record:
    """A definition, valid in the binlog of one server."""

    server: str
    version: DefinitionVersion


def _record(line: str) -> Record:
    server, version = json.loads(line)
    return Record(server, DefinitionVersion.from_json(version))


@dataclass(frozen=True, slots=True)
class DefinitionStore:
    """The definitions in a folder of the checkpoint: files of JSON lines, each written completely and never changed.

    A single planner writes them, before a batch relies on them. A plan may fail after that, or its process be killed,
    and is then made again from the same start. So the name of a file ends with the start of its plan, and a plan from
    the same start skips the files with this start: it finds the same definitions again.
    """

    folder: StateFolder

    def records(self, unless_planned_from: str = "") -> list[Record]:
        """Return the stored definitions in the order of their storage, without the definitions of one start."""
        found = []
        for name in self._files():
            if unless_planned_from and name.split(".")[1] == unless_planned_from:
                continue
            found += self._read(name)
        return found

    def add(self, server: str, versions: Sequence[DefinitionVersion], planned_from: str = "") -> None:
        """Store definitions in a new file. `planned_from` is the start of the plan that found them."""
        if versions:
            lines = [json.dumps([server, version.to_json()], ensure_ascii=False) for version in versions]
            names = self._files()
            number = int(names[-1].partition(".")[0]) + 1 if names else 1
            # Another driver may have planned from the same start, and its plan may be the one that counts.
            while not self.folder.create(_file_name(number, planned_from), "\n".join(lines).encode()):
                number += 1

    def _read(self, name: str) -> list[Record]:
        content = self.folder.read(name)
        if content is None:
            raise ConfigError(
                "a file of the schema history was deleted while it was read",
                file=f"{self.folder.location}/{name}",
                hint=_RESTORED,
            )
        try:
            # splitlines() would also split inside a comment or a label that contains U+2028, U+2029 or U+0085.
            return [_record(line) for line in content.decode().split("\n")]
        except (ValueError, TypeError, ConfigError) as error:
            raise self.folder.damaged(name, content, _RESTORED) from error

    def _files(self) -> list[str]:
        return [name for name in self.folder.names() if name.endswith(".json")]


def _file_name(number: int, planned_from: str) -> str:
    # Padded with zeros, so that names sort in the order of writing.
    return ".".join(filter(None, (f"{number:012}", planned_from, "json")))


@dataclass(slots=True)
class RecordedHistory:
    """The schema history of the captured tables, kept in memory and recorded in the checkpoint."""

    settings: FollowSettings
    _history: SchemaHistory | None = field(default=None, repr=False)
    _planned_from: str = field(default="", repr=False)
    _is_changed: bool = field(default=False, repr=False)

    def plans_from(self, start: Progress) -> bool:
        """Note the start of the next plan. Return whether the previous plan began there too and found definitions.

        That plan was not used, so all that is known in memory is forgotten.
        """
        again = self._is_changed and start.identity == self._planned_from
        if again:
            self._history = None
        self._planned_from, self._is_changed = start.identity, False
        return again

    def columns(self, table: TableName) -> frozenset[str]:
        """Return the columns of a table after the last plan, as far as they are known in memory."""
        definition = None if self._history is None else self._history.tables.known.get(table)
        return frozenset() if definition is None else frozenset(column.name for column in definition.columns)

    @property
    def _stored(self) -> DefinitionStore:
        return DefinitionStore(self.settings.state)

    def begin(
        self, connection: Connection, facts: ServerFacts, tables: Sequence[TableName], start: LogPosition
    ) -> None:
        """Begin a new history with the tables' definitions as of `start`, and record it."""
        self._history = self._empty(connection, facts)
        self._history.start(definitions(connection, tables).values(), start)
        self.note_others(connection, self._history, start)
        self.store(facts.uuid)

    def note_others(self, connection: Connection, history: SchemaHistory, at: LogPosition) -> None:
        """Record tables that are selected by name but whose rows are not captured.

        The binlog contains them too, possibly without saying what kind of table they are.
        """
        captured = {table.name for table in captured_facts(connection, self.settings)}
        not_captured = [
            table
            for table in list_tables(connection, LOGGED)
            if self.settings.tables.includes(*table.name)
            and table.name not in captured
            and table.name not in history.versions
        ]
        keyless = [table.name for table in not_captured if table.kind == BASE_TABLE]
        history.leave_out(dict(definitions(connection, keyless)), "no primary key", at)
        for table in not_captured:
            if table.kind != BASE_TABLE:
                log.warning("event=table_left_out table=%s why=%s", ".".join(table.name), table.kind.lower())
                history.leave_out({table.name: None}, table.kind.lower(), at)

    def at(self, progress: Progress) -> SchemaHistory:
        """Return the history up to the planned binlog position: from memory, or loaded after a restart."""
        if self._history is None:
            with connected(self.settings.server) as connection:
                self._history = self._empty(connection, server_facts(connection))
            # Records after the position, or of a plan from here, belong to plans that were not used.
            self._history.restore(
                record.version
                for record in self._stored.records(self._planned_from or progress.identity)
                if record.server == progress.server and record.version.place <= progress.log.order[:2]
            )
        return self._history

    def complete(self, server: str) -> SchemaHistory:
        """Return everything that was ever recorded for this server's binlog, for readers that do not plan."""
        with connected(self.settings.server) as connection:
            history = self._empty(connection, server_facts(connection))
        history.restore(record.version for record in self._stored.records() if record.server == server)
        return history

    def _empty(self, connection: Connection, facts: ServerFacts) -> SchemaHistory:
        rows = ask(connection, "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA")
        charsets = {str(row[0]): str(row[1]) for row in rows}
        return SchemaHistory.of_server(facts, charsets, self.settings.rules.spelled)

    def store(self, server: str) -> None:
        """Record the new definitions of the history in the checkpoint."""
        if self._history is not None and self._history.unsaved:
            self._is_changed = True
            self._stored.add(server, self._history.unsaved, self._planned_from)
            self._history.unsaved.clear()

    def looked_up(self, connection: Connection, plan: LogPlan, history: SchemaHistory) -> list[DefinitionVersion]:
        """Look up, in the server's catalog, definitions that the binlog cannot provide.

        These are tables renamed from an uncaptured name, or changed by DDL that failed to parse. Valid only when the
        plan has reached the end of the binlog.
        """
        # The catalog shows the present, which is right for a statement only if nothing follows it in the log.
        newest = {seen.change.name: seen for seen in (*plan.ddl, *plan.barrier)} if plan.caught_up else {}
        unknown = {
            name: seen
            for name, seen in newest.items()
            if seen.change.definition is None
            and seen.change.kind in {"rename", "swap", "unclear"}
            and self.settings.tables.includes(*name)
        }
        captured = captured_facts(connection, self.settings) if unknown else []
        existing = [table.name for table in captured if table.name in unknown]
        versions = []
        for name, definition in definitions(connection, existing).items():
            seen = unknown[name]
            history.start([definition], LogPosition(seen.file, seen.pos))
            versions.append(DefinitionVersion(name, seen.file, seen.pos, definition))
        return versions
