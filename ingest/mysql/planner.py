"""The plan of the next batch: chunks of tables still to be read, and the binlog from the end of the last batch.

Within a batch, snapshot rows are ordered before binlog rows, but they are read after the batch was planned. The binlog
that follows may therefore set a row back to an older state for a moment; once the binlog has passed the time of the
snapshot read, the table is right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.errors import PositionLost, SchemaConflict
from penstock.ingest.mysql.binlog.plan import LoggedDdl, LogPlan, PlanLimits, plan_log
from penstock.ingest.mysql.binlog.resume import Resume, at_time, check_position, earliest, latest, resume, settled
from penstock.ingest.mysql.ddl import statements as ddl
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.ddl_effects import (
    barriers_of,
    given_up,
    is_a_tools_swap,
    not_followed,
    renames_column,
    tell_of_ignored,
)
from penstock.ingest.mysql.errors import BinlogPurged
from penstock.ingest.mysql.offsets import Batch, Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.catalog import BASE_TABLE, LOGGED, TableFacts, TableName, definitions, list_tables
from penstock.ingest.mysql.server.connection import ask, connected, server_facts, variables
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor
from penstock.ingest.mysql.snapshot.chunks import next_chunks, start_chunks
from penstock.ingest.source import Barrier, Limit

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

log = logging.getLogger(__name__)

_BYTES_A_CHANGE = 200  # an estimate, for limits given in rows
_MOST_CHUNKS = 400  # per batch, because the bounds of chunks are stored in its offsets
_RANGE_BYTES = 8 << 20


@dataclass(slots=True)
class Planner:
    """The planner of batches. Lives in the planner process as long as a query runs, and holds the schema history.

    `at_barrier` is true if the last planned batch ends before a change of a whole table, or applies one.
    """

    settings: FollowSettings
    at_barrier: bool = False
    _history: SchemaHistory | None = field(default=None, repr=False)
    _facts: ServerFacts | None = field(default=None, repr=False)
    _named_from: LogPosition | None = field(default=None, repr=False)

    def begin(self) -> Progress:
        """Return the start of a pipeline without a checkpoint, with its tables' definitions recorded as of there."""
        with connected(self.settings.server) as connection:
            facts = server_facts(connection)
            start = self._start(connection, facts)
            tables = self.captured(connection)
            self._history = self._empty_history(connection, facts)
            self._history.start(definitions(connection, [table.name for table in tables]).values(), start)
            self._note_others(connection, self._history, start)
            self._store(facts.uuid)
            self._facts = facts
        names = tuple(table.name for table in tables)
        waiting = names if self.settings.startup.reads_tables else ()
        log.info("event=begins position=%s tables=%d mode=%s", start, len(names), self.settings.startup.mode)
        by_gtid = self.settings.startup.mode == "specific-offset" and not self.settings.startup.file
        granted = "" if self.settings.reset else self.settings.resnapshot
        return Progress(facts.uuid, start, by_gtid=by_gtid, waiting=waiting, reread=granted)

    def _anew(self, connection: Connection, facts: ServerFacts) -> Progress:
        """Return a new start at the current binlog end, with a batch that empties all tables.

        All tables are then read again.
        """
        start, tables = settled(connection, facts), self.captured(connection)
        names = tuple(table.name for table in tables)
        self._history = self._empty_history(connection, facts)
        self._history.start(definitions(connection, names).values(), start)
        self._note_others(connection, self._history, start)
        self._store(facts.uuid)
        self._facts = facts
        log.info("event=tables_read_again tables=%s position=%s", ",".join(map(".".join, names)), start)
        empty = tuple(Barrier("truncate", *name) for name in names)
        self.at_barrier = True
        reread = self.settings.resnapshot
        return Progress(facts.uuid, start, waiting=names, reread=reread, batch=Batch(barriers=empty))

    def _emptied(self, progress: Progress) -> Progress:
        """Return a batch that empties the targets of some tables.

        Their rows are then read again while the binlog continues.
        """
        names = self.settings.reset
        log.info("event=tables_read_again tables=%s", ",".join(map(".".join, names)))
        empty = Batch(barriers=tuple(Barrier("truncate", *name) for name in names))
        self.at_barrier = True
        return replace(progress.reading(names), reread=self.settings.resnapshot, batch=empty)

    def _start(self, connection: Connection, facts: ServerFacts) -> LogPosition:
        startup = self.settings.startup
        match startup.mode:
            case "earliest-offset":
                return earliest(connection, facts)
            case "timestamp":
                return at_time(self.settings.server, connection, facts, startup.millis, self.settings.server_id(-1))
            case "specific-offset" if startup.file:
                start = LogPosition(startup.file, startup.pos, startup.gtid)
                check_position(connection, start)
                return start
            case "specific-offset":
                oldest = earliest(connection, facts)
                return resume(connection, facts, replace(oldest, gtid=startup.gtid), "set by its GTID set").start
            case "latest-offset":
                return latest(connection, facts)
        return settled(connection, facts)

    def captured(self, connection: Connection) -> list[TableFacts]:
        """Return the tables that exist now and are captured."""
        taken = [table for table in list_tables(connection) if self.settings.tables.takes(table.database, table.table)]
        return [table for table in taken if table.has_primary_key or self.settings.keyless]

    def _note_others(self, connection: Connection, history: SchemaHistory, at: LogPosition) -> None:
        """Record tables that are selected by name but whose rows are not captured.

        The binlog contains them too, possibly without saying what kind of table they are.
        """
        taken = {table.name for table in self.captured(connection)}
        others = [
            table
            for table in list_tables(connection, LOGGED)
            if self._takes(table.name) and table.name not in taken and table.name not in history.versions
        ]
        keyless = [table.name for table in others if table.kind == BASE_TABLE]
        history.leave_out(dict(definitions(connection, keyless)), "no primary key", at)
        for table in others:
            if table.kind != BASE_TABLE:
                log.warning("event=table_left_out table=%s why=%s", ".".join(table.name), table.kind.lower())
                history.leave_out({table.name: None}, table.kind.lower(), at)

    def end(self) -> LogPosition:
        with connected(self.settings.server) as connection:
            return settled(connection, server_facts(connection))

    def next(self, before: Progress, limit: Limit, until: LogPosition | None) -> Progress | None:
        """Return the end of the batch after `before`, with its content; None if there is nothing to do."""
        self.at_barrier = False
        with connected(self.settings.server) as connection:
            facts = server_facts(connection)
            asked = self.settings.resnapshot != before.reread and bool(self.settings.resnapshot)
            if asked and not self.settings.reset:
                return self._anew(connection, facts)
            progress = replace(before, batch=Batch())
            if self._facts is None or facts.uuid != progress.server:
                try:
                    progress = self._returned(connection, facts, progress)
                except PositionLost as error:
                    if not self.settings.resnapshot_when_lost:
                        raise
                    log.warning("event=position_lost reason=%s position=%s", error.message, progress.log)
                    return self._anew(connection, facts)
            history = self.history_at(progress)
            progress = self._heeded(connection, progress)
            if asked:
                return self._emptied(progress)
            now = settled(connection, facts)
            if progress.unsettled:
                progress = replace(progress, settle=now, unsettled=False)
            if not progress.reads_tables and _is_reached(progress, until):
                return None if progress == replace(before, batch=Batch()) else progress
            plan = self._log_plan(progress, limit, until, history)
            self.at_barrier = plan.at_barrier
            looked_up = self._looked_up(connection, plan, history)
            self._store(progress.server)
            mixed = self._mixed_names(progress, plan)
            progress = self._after_log(progress, plan, looked_up)
            if not progress.batch.barriers and progress.reads_tables:
                progress = self._with_chunks(connection, progress, limit, before.log)
            progress = progress.reading(mixed) if mixed else progress  # after this batch's part of the binlog
            if progress.batch.is_empty and replace(progress, batch=before.batch) == before:
                return None
            return progress

    def history_at(self, progress: Progress) -> SchemaHistory:
        """Return the history up to the planned binlog position: from memory, or loaded after a restart."""
        if self._history is None:
            with connected(self.settings.server) as connection:
                self._history = self._empty_history(connection, server_facts(connection))
            self._history.restore(
                record.version
                for record in self.settings.state.records()
                if record.server == progress.server and record.version.place <= progress.log.order[:2]
            )
        return self._history

    def whole_history(self, server: str) -> SchemaHistory:
        """Return everything that was ever recorded for this server's binlog, for readers that do not plan."""
        with connected(self.settings.server) as connection:
            history = self._empty_history(connection, server_facts(connection))
        history.restore(record.version for record in self.settings.state.records() if record.server == server)
        return history

    def _empty_history(self, connection: Connection, facts: ServerFacts) -> SchemaHistory:
        rows = ask(connection, "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA")
        return SchemaHistory.of_server(facts, {str(row[0]): str(row[1]) for row in rows})

    def _store(self, server: str) -> None:
        if self._history is not None:
            self.settings.state.add(server, self._history.unsaved)
            self._history.unsaved.clear()

    def _returned(self, connection: Connection, facts: ServerFacts, progress: Progress) -> Progress:
        """Resume on the same server or another after a restart, and add tables that match since the stop."""
        try:
            way = resume(connection, facts, progress.log, progress.server)
        except BinlogPurged as error:
            if not self.settings.accept_gap:
                raise
            progress = replace(progress, log=earliest(connection, facts), server=facts.uuid)
            log.warning("event=gap_accepted lost_from=%s goes_on=%s", error.facts.get("position"), progress.log)
            way = Resume(progress.log, by_gtid=False)
        if way.start != progress.log:
            log.info("event=purged_but_read position=%s goes_on=%s", progress.log, way.start)
            progress = replace(progress, log=way.start)
        history = self.history_at(progress)
        if way.by_gtid:
            log.warning("event=another_server before=%s now=%s gtid=%s", progress.server, facts.uuid, progress.log.gtid)
            # The new server's binlog has another order: the definitions known now are valid from its very beginning.
            known = [table for table in history.tables.known.values() if history.is_taken(table.name)]
            history.tables.known.clear()
            history.versions.clear()
            history.unsaved.clear()
            history.start(known, LogPosition(f"{facts.uuid}.0", 0))
            progress = replace(progress, server=facts.uuid, by_gtid=True)
        self._facts = facts
        at = LogPosition(f"{facts.uuid}.0", 0) if way.by_gtid else progress.log
        fresh = [table.name for table in self.captured(connection) if not history.is_taken(table.name)]
        if fresh:
            # A table left out so far may have been altered after this position; its tracked definition is the right
            # one.
            before = {name: history.tables.known[name] for name in fresh if name in history.tables.known}
            history.start({**definitions(connection, fresh), **before}.values(), at)
        self._note_others(connection, history, at)
        self._store(progress.server)
        if fresh and self.settings.new_tables and self.settings.startup.reads_tables:
            log.info("event=tables_added tables=%s", ",".join(map(".".join, fresh)))
            progress = progress.reading(fresh)
        return progress

    def _heeded(self, connection: Connection, progress: Progress) -> Progress:
        """Act on signals from users; a signal is deleted once the offsets that name it are stored."""
        found = self.settings.state.signals()
        heeded = [signal.name for signal in found if signal.name in progress.signals]
        for name in heeded:
            self.settings.state.forget(name)
        fresh = [signal for signal in found if signal.name not in heeded]
        if fresh:
            wanted = {table for signal in fresh for table in signal.tables}
            there = [table.name for table in self.captured(connection)]
            names = [name for name in there if wanted & {name[1], ".".join(name)}]
            unknown = wanted - {word for name in names for word in (name[1], ".".join(name))}
            if unknown:
                log.warning("event=signal_unknown tables=%s note=no such table is captured", ",".join(sorted(unknown)))
            log.info("event=tables_read_again tables=%s", ",".join(map(".".join, names)))
            progress = progress.reading(names)
        return replace(progress, signals=tuple(signal.name for signal in fresh))

    def _log_plan(self, progress: Progress, limit: Limit, until: LogPosition | None, history: SchemaHistory) -> LogPlan:
        if self.settings.snapshot == "exact" and progress.reads_tables:
            return LogPlan((), progress.log)  # the binlog waits until the tables are read
        most = limit.bytes or self.settings.log_bytes
        if limit.rows is not None:
            most = min(most, limit.rows * _BYTES_A_CHANGE)
        stop = None if progress.reads_tables or progress.by_gtid else _later(until, progress.settle if until else None)
        limits = PlanLimits(most, min(_RANGE_BYTES, max(1 << 16, most // 8)), stop, progress.by_gtid)
        return plan_log(
            self.settings.server, progress.log, limits, self.settings.server_id(-1), history, self._is_barrier
        )

    def _is_barrier(self, statement: ddl.Statement) -> bool:
        wanted = self.settings.barriers
        match statement:
            case ddl.TruncateTable(name):
                return wanted.truncate and self._takes(name)
            case ddl.DropTables(names):
                return wanted.drop and any(map(self._takes, names))
            case ddl.DropDatabase(database):
                known = self._history.tables.known if self._history else {}
                return wanted.drop and any(name[0] == database and self._takes(name) for name in known)
            case ddl.AlterTable(name, changes):
                return wanted.rename_column and self._takes(name) and any(map(renames_column, changes))
            case ddl.RenameTables(pairs):
                return wanted.drop and any(self._takes(old) for old in given_up(pairs))
        return False

    def _takes(self, name: TableName) -> bool:
        return self.settings.tables.takes(*name)

    def _looked_up(self, connection: Connection, plan: LogPlan, history: SchemaHistory) -> list[DefinitionVersion]:
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
            and self._takes(name)
        }
        there = [table.name for table in self.captured(connection) if table.name in unknown] if unknown else []
        versions = []
        for name, definition in definitions(connection, there).items():
            seen = unknown[name]
            history.start([definition], LogPosition(seen.file, seen.pos))
            versions.append(DefinitionVersion(name, seen.file, seen.pos, definition))
        return versions

    def _mixed_names(self, progress: Progress, plan: LogPlan) -> list[TableName]:
        """Return the tables that renamed a column during the snapshot.

        Their snapshot rows already use the new name, older binlog events still use the old one and would overwrite
        them, so these tables are read again.
        """
        changes = (seen.change for seen in (*plan.ddl, *plan.barrier))
        renamed = [change.name for change in changes if change.renamed_columns and self._takes(change.name)]
        if progress.settle is None:
            mixed = progress.reads_tables
        else:
            mixed = progress.unsettled or progress.log.is_before(progress.settle)
        if mixed:
            return renamed
        # New tables are read while others stream, and rows of those come only from the binlog by now.
        new = {*progress.waiting, *((cursor.database, cursor.table) for cursor in progress.cursors)}
        return [name for name in renamed if name in new]

    def _after_log(self, progress: Progress, plan: LogPlan, looked_up: Sequence[DefinitionVersion]) -> Progress:
        defined, moved = list(looked_up), []
        for seen in (*plan.ddl, *plan.barrier):
            version = self._defined(seen)
            if version is not None:
                defined.append(version)
            if self._takes(seen.change.name) and self._needs_reading(seen):
                moved.append(seen.change.name)
            self._tell_of_key(seen)
            if seen.change.kind == "rows-moved" and self._takes(seen.change.name):
                log.warning("event=rows_moved_unlogged table=%s how=%s", ".".join(seen.change.name), seen.change.detail)
            elif seen.change.kind == "left-out" and self._takes(seen.change.name):
                self._leave_out(seen)
        ignored = list(not_followed(plan.ddl, self._takes))
        tell_of_ignored(ignored)
        barriers = tuple(barriers_of(plan.barrier, self._takes, drops=self.settings.barriers.drop))
        batch = Batch((), plan.ranges, tuple(defined), barriers, ignored=tuple(one.kind for one in ignored))
        by_gtid = progress.by_gtid and not plan.caught_up
        progress = replace(progress, log=plan.end, by_gtid=by_gtid, batch=batch)
        return progress.reading(moved) if moved and self.settings.startup.reads_tables else progress

    def _defined(self, seen: LoggedDdl) -> DefinitionVersion | None:
        change = seen.change
        if change.kind not in {"create", "alter", "rename", "swap"} or change.definition is None:
            return None
        keyed = bool(change.definition.primary_key) or self.settings.keyless
        return (
            DefinitionVersion(change.name, seen.file, seen.pos, change.definition)
            if keyed and self._takes(change.name)
            else None
        )

    def _needs_reading(self, seen: LoggedDdl) -> bool:
        """Return whether a table must be read because rows arrived that the binlog does not contain.

        A table renamed to a captured name brings such rows, and so may partitions; the copy of a schema change tool has
        the rows that were there before.
        """
        change = seen.change
        match change.kind:
            case "alter":
                is_keyed = change.definition is not None and bool(change.definition.primary_key)
                return is_keyed and not self.settings.keyless and self._was_keyless(seen)
            case "rename" | "swap":
                return change.old_name is not None and not is_a_tools_swap(change.old_name, change.name)
            case "rows-moved":
                return change.brings_rows
        return False

    def _was_keyless(self, seen: LoggedDdl) -> bool:
        """Return whether the table's rows were left out until now because it had no key."""
        before = self._history.definition_at(seen.change.name, seen.file, seen.pos - 1) if self._history else None
        return before is not None and not before.primary_key

    def _tell_of_key(self, seen: LoggedDdl) -> None:
        """Warn if the primary key changed: the target keeps its key, and rows equal in it are merged into one."""
        now, name = seen.change.definition, seen.change.name
        if seen.change.kind != "alter" or now is None or not self._takes(name) or self._history is None:
            return
        before = self._history.definition_at(name, seen.file, seen.pos - 1)
        renamed = dict(seen.change.renamed_columns)
        if before is None or not before.primary_key or not now.primary_key:
            return
        key = {renamed.get(column, column) for column in before.primary_key}
        if not key.issuperset(now.primary_key):
            log.warning(
                "event=key_changed table=%s before=%s now=%s note=the target table keeps its key, so rows with "
                "equal values in it are merged; create the table again to change its key",
                ".".join(name),
                ",".join(before.primary_key),
                ",".join(now.primary_key),
            )

    def _leave_out(self, seen: LoggedDdl) -> None:
        name, change = ".".join(seen.change.name), seen.change
        if change.definition is not None and (change.definition.primary_key or self.settings.keyless):
            raise SchemaConflict(
                f"a captured table became {change.detail}: its binlog events mix historical rows with current ones",
                table=name,
                file=seen.file,
                pos=seen.pos,
                hint=f"exclude it:  --excluding-tables {change.name[1]}",
            )
        log.warning("event=table_left_out table=%s why=%s", name, change.detail)

    def _with_chunks(self, connection: Connection, progress: Progress, limit: Limit, at: LogPosition) -> Progress:
        """Cut chunks until the batch is full. The binlog position must be determined before the chunks are read."""
        rows = limit.rows or self.settings.snapshot_rows
        size = limit.bytes or 1 << 40
        facts = {table.name: table for table in self.captured(connection)}
        chunks: list[Chunk] = []
        waiting, cursors = sorted(progress.waiting, key=self.settings.rank), list(progress.cursors)
        while rows > 0 and size > 0 and len(chunks) < _MOST_CHUNKS and (cursors or waiting):
            if not cursors:
                table = facts.get(waiting.pop(0))
                if table is None:  # dropped in the meantime: the binlog reports it
                    continue
                cursors.append(start_chunks(connection, table, self.settings.chunks))
            elif (cursors[0].database, cursors[0].table) not in facts:
                cursors = []
                continue
            a_chunk = _rows_a_chunk(cursors[0], self.settings.chunks.rows, facts)
            wanted = max(1, min(_MOST_CHUNKS - len(chunks), rows // a_chunk))
            found, cursor = next_chunks(connection, cursors[0], wanted)
            chunks += found
            cursors = [] if cursor.done else [cursor]
            rows -= a_chunk * len(found)
            size -= a_chunk * len(found) * max(1, _bytes_a_row(cursor, facts))
        exact = self.settings.snapshot == "exact"
        batch = replace(progress.batch, chunks=tuple(chunks), as_of=at if exact else None)
        over = not cursors and not waiting and not exact
        return replace(progress, waiting=tuple(waiting), cursors=tuple(cursors), unsettled=over, batch=batch)

    def names_in_log(self, connection: Connection, start: LogPosition) -> bool:
        """Return whether the binlog contains column names from there on.

        The setting may be new, so names are certain only after the first position at which it was observed.
        """
        if variables(connection, "binlog_row_metadata").get("binlog_row_metadata") != "FULL":
            self._named_from = None
            return False
        self._named_from = self._named_from or latest(connection, server_facts(connection))
        return not start.is_before(self._named_from)


def _is_reached(progress: Progress, until: LogPosition | None) -> bool:
    if until is None or progress.by_gtid:
        return False
    target = _later(until, progress.settle)
    return target is not None and not progress.log.is_before(target)


def _later(one: LogPosition | None, other: LogPosition | None) -> LogPosition | None:
    if one is None or other is None:
        return one or other
    return other if one.is_before(other) else one


def _rows_a_chunk(cursor: ChunkCursor, rows: int, facts: dict[TableName, TableFacts]) -> int:
    table = facts.get((cursor.database, cursor.table))
    if table is None:
        return rows
    return max(1, min(rows, table.rows // max(1, cursor.estimate)))


def _bytes_a_row(cursor: ChunkCursor, facts: dict[TableName, TableFacts]) -> int:
    table = facts.get((cursor.database, cursor.table))
    return table.bytes_a_row if table else 1
