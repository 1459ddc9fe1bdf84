"""The schema history of the captured tables: recorded in the checkpoint, loaded from it after a restart."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.plan import LogPlan
from penstock.ingest.mysql.captured_tables import captured_facts
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.catalog import BASE_TABLE, LOGGED, TableName, definitions, list_tables
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.settings import FollowSettings

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RecordedHistory:
    """The schema history of the captured tables, kept in memory and recorded in the checkpoint."""

    settings: FollowSettings
    _history: SchemaHistory | None = field(default=None, repr=False)

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
        taken = {table.name for table in captured_facts(connection, self.settings)}
        others = [
            table
            for table in list_tables(connection, LOGGED)
            if self.settings.tables.takes(*table.name)
            and table.name not in taken
            and table.name not in history.versions
        ]
        keyless = [table.name for table in others if table.kind == BASE_TABLE]
        history.leave_out(dict(definitions(connection, keyless)), "no primary key", at)
        for table in others:
            if table.kind != BASE_TABLE:
                log.warning("event=table_left_out table=%s why=%s", ".".join(table.name), table.kind.lower())
                history.leave_out({table.name: None}, table.kind.lower(), at)

    def at(self, progress: Progress) -> SchemaHistory:
        """Return the history up to the planned binlog position: from memory, or loaded after a restart."""
        if self._history is None:
            with connected(self.settings.server) as connection:
                self._history = self._empty(connection, server_facts(connection))
            self._history.restore(
                record.version
                for record in self.settings.state.records()
                if record.server == progress.server and record.version.place <= progress.log.order[:2]
            )
        return self._history

    def whole(self, server: str) -> SchemaHistory:
        """Return everything that was ever recorded for this server's binlog, for readers that do not plan."""
        with connected(self.settings.server) as connection:
            history = self._empty(connection, server_facts(connection))
        history.restore(record.version for record in self.settings.state.records() if record.server == server)
        return history

    def _empty(self, connection: Connection, facts: ServerFacts) -> SchemaHistory:
        rows = ask(connection, "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA")
        return SchemaHistory.of_server(facts, {str(row[0]): str(row[1]) for row in rows})

    def store(self, server: str) -> None:
        """Record in the checkpoint what is new in the history."""
        if self._history is not None:
            self.settings.state.add(server, self._history.unsaved)
            self._history.unsaved.clear()

    def looked_up(self, connection: Connection, plan: LogPlan, history: SchemaHistory) -> list[DefinitionVersion]:
        """Look up, in the server's catalog, definitions that the binlog cannot provide.

        These are tables renamed from an uncaptured name, or changed by DDL that failed to parse. Valid only when the
        plan has reached the end of the binlog.
        """
        newest = {seen.change.name: seen for seen in (*plan.ddl, *plan.barrier)} if plan.caught_up else {}
        unknown = {
            name: seen
            for name, seen in newest.items()
            if seen.change.definition is None
            and seen.change.kind in {"rename", "swap", "unclear"}
            and self.settings.tables.takes(*name)
        }
        captured = captured_facts(connection, self.settings) if unknown else []
        there = [table.name for table in captured if table.name in unknown]
        versions = []
        for name, definition in definitions(connection, there).items():
            seen = unknown[name]
            history.start([definition], LogPosition(seen.file, seen.pos))
            versions.append(DefinitionVersion(name, seen.file, seen.pos, definition))
        return versions
