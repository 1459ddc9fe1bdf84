"""The effects of DDL in the binlog on the plan of a batch: definitions, barriers, and tables to read again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import SchemaConflict
from penstock.ingest.mysql.binlog.log_plan import LoggedDdl, LogPlan
from penstock.ingest.mysql.ddl import statements as ddl
from penstock.ingest.mysql.ddl.alter_changes import RowsMoved
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.offsets import BatchContent, Progress
from penstock.ingest.mysql.server.catalog import TableName
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.whole_table_ddl import (
    abandoned_names,
    barriers_of,
    is_a_tools_swap,
    log_ignored,
    not_followed,
    renames_column,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoggedDdlRules:
    """The rules for DDL in the binlog: which statement ends a batch, and how other statements change its plan."""

    settings: FollowSettings
    history: SchemaHistory

    def is_barrier(self, statement: ddl.Statement) -> bool:
        """Return whether the batch must end before this statement."""
        wanted = self.settings.barriers
        match statement:
            case ddl.TruncateTableStatement(name):
                return wanted.truncate and self._is_captured(name)
            case ddl.DropTablesStatement(names):
                return wanted.drop and any(map(self._is_captured, names))
            case ddl.DropDatabaseStatement(database):
                known = self.history.tables.known
                return wanted.drop and any(name[0] == database and self._is_captured(name) for name in known)
            case ddl.AlterTableStatement(name, changes):
                if self.settings.follows_moved_rows and any(self._is_left_by_rows(name, change) for change in changes):
                    return True
                if not self._is_captured(name):
                    return False
                renames = wanted.rename_column and any(map(renames_column, changes))
                rewrites = self.settings.empties_rewritten and self.history.tables.rewrites_key(statement)
                return renames or rewrites
            case ddl.CreateTableStatement(name):
                return self._is_captured(name) and name in self.settings.outdated
            case ddl.RenameTablesStatement(pairs):
                return wanted.drop and any(self._is_captured(old) for old in abandoned_names(pairs))
        return False

    def _is_left_by_rows(self, name: TableName, change: object) -> bool:
        """Return whether a clause of ALTER TABLE removes rows of this table, or of another that it names."""
        if not isinstance(change, RowsMoved):
            return False
        exchanged = change.other if change.becomes == "exchanged" else None
        return (
            any(table is not None and self._is_captured(table) for table in (name, exchanged)) and change.removes_rows
        )

    def _is_captured(self, name: TableName) -> bool:
        return self.settings.tables.includes(*name)

    def versions(
        self, plan: LogPlan, looked_up: Sequence[DefinitionVersion]
    ) -> list[tuple[DefinitionVersion, tuple[str, ...]]]:
        """Return the definitions that begin in the plan, with the columns that their statement gives a value.

        `looked_up` are definitions that a statement does not show.
        """
        found: list[tuple[DefinitionVersion, tuple[str, ...]]] = [(version, ()) for version in looked_up]
        for seen in (*plan.ddl, *plan.barrier):
            version = self._defined(seen)
            if version is not None:
                found.append((version, seen.change.filled_columns))
        return found

    def defined(self, plan: LogPlan) -> list[LoggedDdl]:
        """Return the statements of the plan with which definitions of captured tables begin."""
        return [seen for seen in (*plan.ddl, *plan.barrier) if self._defined(seen) is not None]

    def applied(self, progress: Progress, plan: LogPlan, looked_up: Sequence[DefinitionVersion]) -> Progress:
        """Return the progress after the planned part of the binlog, with the definitions and barriers found in it."""
        defined, moved = list(looked_up), []
        for seen in (*plan.ddl, *plan.barrier):
            version = self._defined(seen)
            if version is not None:
                defined.append(version)
            if self._is_captured(seen.change.name) and self._needs_reading(seen):
                moved.append(seen.change.name)
            self._warn_of_key_change(seen)
            if seen.change.kind == "left-out" and self._is_captured(seen.change.name):
                self._leave_out(seen)
        ignored = list(not_followed([seen for seen in plan.ddl if not self._is_left_out(seen)], self._is_captured))
        log_ignored(ignored)
        wanted = self.settings.barriers
        barriers = tuple(barriers_of(plan.barrier, self._is_captured, drops=wanted.drop, renames=wanted.rename_column))
        batch = BatchContent(
            (), plan.ranges, tuple(defined), barriers, ignored=tuple(change.kind for change in ignored)
        )
        # At the end of the log all its transactions were seen, in any order: from there on positions suffice.
        by_gtid = progress.by_gtid and not plan.caught_up
        progress = replace(
            progress, log=plan.end, by_gtid=by_gtid, prepared=plan.prepared, lacking=plan.lacking, batch=batch
        )
        return progress.reading(moved) if moved and self.settings.reads_tables else progress

    def _defined(self, seen: LoggedDdl) -> DefinitionVersion | None:
        change = seen.change
        if change.kind not in {"create", "alter", "rename", "swap"} or change.definition is None:
            return None
        keyed = bool(change.definition.primary_key) or self.settings.keyless
        return (
            DefinitionVersion(change.name, seen.file, seen.pos, change.definition)
            if keyed and self._is_captured(change.name)
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
                gets_key = is_keyed and not self.settings.keyless and self._was_keyless(seen)
                return gets_key or (change.rewrites_key and self.settings.empties_rewritten)
            case "rename" | "swap":
                return change.old_name is not None and not is_a_tools_swap(change.old_name, change.name)
            case "rows-moved":
                return change.brings_rows or (change.removes_rows and self.settings.follows_moved_rows)
        return False

    def _is_left_out(self, seen: LoggedDdl) -> bool:
        """Return whether the change is of a table that has no key, and therefore no target table."""
        name = seen.change.old_name or seen.change.name
        before = self.history.definition_at(name, seen.file, seen.pos - 1)
        return before is not None and not before.primary_key and not self.settings.keyless

    def _was_keyless(self, seen: LoggedDdl) -> bool:
        """Return whether the table's rows were left out until now because it had no key."""
        before = self.history.definition_at(seen.change.name, seen.file, seen.pos - 1)
        return before is not None and not before.primary_key

    def _warn_of_key_change(self, seen: LoggedDdl) -> None:
        """Warn if the primary key changed: the target keeps its key, and rows equal in it are merged into one."""
        now, name = seen.change.definition, seen.change.name
        if seen.change.kind != "alter" or now is None or not self._is_captured(name):
            return
        # The definition just before the statement: the history already contains the new one at its position.
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
