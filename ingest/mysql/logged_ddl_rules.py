"""The effects of DDL in the binlog on the plan of a batch: definitions, barriers, and tables to read again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import SchemaConflict
from penstock.ingest.mysql.binlog.plan import LoggedDdl, LogPlan
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
from penstock.ingest.mysql.offsets import BatchContent, Progress
from penstock.ingest.mysql.server.catalog import TableName
from penstock.ingest.mysql.settings import FollowSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoggedDdlRules:
    """The rules for DDL found in the binlog: which statement ends a batch, and what the others change in its plan."""

    settings: FollowSettings
    history: SchemaHistory

    def is_barrier(self, statement: ddl.Statement) -> bool:
        """Return whether the batch must end before this statement."""
        wanted = self.settings.barriers
        match statement:
            case ddl.TruncateTableStatement(name):
                return wanted.truncate and self._takes(name)
            case ddl.DropTablesStatement(names):
                return wanted.drop and any(map(self._takes, names))
            case ddl.DropDatabaseStatement(database):
                known = self.history.tables.known
                return wanted.drop and any(name[0] == database and self._takes(name) for name in known)
            case ddl.AlterTableStatement(name, changes):
                return wanted.rename_column and self._takes(name) and any(map(renames_column, changes))
            case ddl.RenameTablesStatement(pairs):
                return wanted.drop and any(self._takes(old) for old in given_up(pairs))
        return False

    def _takes(self, name: TableName) -> bool:
        return self.settings.tables.includes(*name)

    def mixed_names(self, progress: Progress, plan: LogPlan) -> list[TableName]:
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

    def applied(self, progress: Progress, plan: LogPlan, looked_up: Sequence[DefinitionVersion]) -> Progress:
        """Return the progress after the planned part of the binlog, with the definitions and barriers found in it."""
        defined, moved = list(looked_up), []
        for seen in (*plan.ddl, *plan.barrier):
            version = self._defined(seen)
            if version is not None:
                defined.append(version)
            if self._takes(seen.change.name) and self._needs_reading(seen):
                moved.append(seen.change.name)
            self._warn_of_key_change(seen)
            if seen.change.kind == "rows-moved" and self._takes(seen.change.name):
                log.warning("event=rows_moved_unlogged table=%s how=%s", ".".join(seen.change.name), seen.change.detail)
            elif seen.change.kind == "left-out" and self._takes(seen.change.name):
                self._leave_out(seen)
        ignored = list(not_followed(plan.ddl, self._takes))
        tell_of_ignored(ignored)
        barriers = tuple(barriers_of(plan.barrier, self._takes, drops=self.settings.barriers.drop))
        batch = BatchContent((), plan.ranges, tuple(defined), barriers, ignored=tuple(one.kind for one in ignored))
        by_gtid = progress.by_gtid and not plan.caught_up
        progress = replace(progress, log=plan.end, by_gtid=by_gtid, batch=batch)
        return progress.reading(moved) if moved and self.settings.reads_tables else progress

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
        before = self.history.definition_at(seen.change.name, seen.file, seen.pos - 1)
        return before is not None and not before.primary_key

    def _warn_of_key_change(self, seen: LoggedDdl) -> None:
        """Warn if the primary key changed: the target keeps its key, and rows equal in it are merged into one."""
        now, name = seen.change.definition, seen.change.name
        if seen.change.kind != "alter" or now is None or not self._takes(name):
            return
        before = self.history.definition_at(name, seen.file, seen.pos - 1)
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
