"""Changes of whole tables in the binlog: barriers between batches, and changes that are not followed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.ingest.mysql.binlog.log_plan import LoggedDdl
from penstock.ingest.mysql.ddl.alter_changes import ChangeColumn, RenameColumnClause
from penstock.ingest.mysql.server.catalog import TableName
from penstock.ingest.mysql.settings import shadowed
from penstock.ingest.source import Barrier

log = logging.getLogger(__name__)

_KEPT = {
    "truncate": "its rows stay in the target table; use --on-truncate delete-all, or  ddl: {truncate: "
    "delete-all}  in a file, to delete them",
    "drop": "its rows stay in the target table; use --on-drop delete-all, or  ddl: {drop: delete-all}  in a "
    "file, to delete them",
    "rows-moved": "rows that left the table stay in the target table; use --on-truncate delete-all, or  ddl: "
    "{truncate: delete-all}  in a file, to empty it and read it again",
    "rename-column": "the new name becomes a new column, and unchanged rows keep their value in the old one; use "
    "--on-rename-column rename, or  ddl: {rename-column: rename}  in a file, to rename the "
    "column",
}


@dataclass(frozen=True, slots=True)
class IgnoredChange:
    """A change of a whole table that is not applied to the target, because of the settings."""

    kind: Literal["truncate", "drop", "rename-column", "rows-moved"]
    database: str
    table: str
    columns: tuple[tuple[str, str], ...] = ()
    how: str = ""  # rows were moved


def renames_column(change: object) -> bool:
    """Return whether a clause of ALTER TABLE renames a column."""
    match change:
        case RenameColumnClause(old, new):
            return old != new
        case ChangeColumn(old, parsed):
            return old != parsed.column.name
    return False


def is_a_tools_swap(old: TableName, new: TableName) -> bool:
    """Return whether this rename is an online schema change tool replacing a table with its copy."""
    return old[0] == new[0] and shadowed(old[1]) == new[1]


def abandoned_names(pairs: Iterable[tuple[TableName, TableName]]) -> list[TableName]:
    """Return the names that no longer refer to the same rows: old names of renamed tables, except for a tool's swap."""
    known = list(pairs)
    kept = {new for old, new in known if is_a_tools_swap(old, new)}
    return [old for old, _ in known if old not in kept]


def barriers_of(
    seen: Sequence[LoggedDdl], is_captured: Callable[[TableName], bool], *, drops: bool, renames: bool
) -> Iterator[Barrier]:
    """Yield the barriers of DDL that must be applied between batches, for captured tables only."""
    renamed = [(logged.change.old_name, logged.change.name) for logged in seen if logged.change.old_name is not None]
    yield from (Barrier("drop", *name) for name in abandoned_names(renamed) if drops and is_captured(name))
    for change in (logged.change for logged in seen if is_captured(logged.change.name)):
        if change.kind == "truncate" or change.kind == "drop":  # noqa: PLR1714  mypy narrows the type by `==`, not by `in`
            yield Barrier(change.kind, *change.name)
            continue
        if change.renamed_columns and renames:
            yield Barrier("rename-columns", *change.name, change.renamed_columns)
        # The table is read again. Its target may still have rows that the table lost: rows under former keys, rows of
        # an earlier table of this name, or rows removed without a trace in the log.
        if change.rewrites_key or change.kind == "create" or change.removes_rows:
            yield Barrier("truncate", *change.name)


def not_followed(seen: Sequence[LoggedDdl], is_captured: Callable[[TableName], bool]) -> Iterator[IgnoredChange]:
    """Yield changes of whole tables that are no barrier by the settings: the target keeps its rows, or its column."""
    renamed = [(logged.change.old_name, logged.change.name) for logged in seen if logged.change.old_name is not None]
    yield from (IgnoredChange("drop", *name) for name in abandoned_names(renamed) if is_captured(name))
    for change in (logged.change for logged in seen if is_captured(logged.change.name)):
        if change.kind == "truncate" or change.kind == "drop":  # noqa: PLR1714  mypy narrows the type by `==`, not by `in`
            yield IgnoredChange(change.kind, *change.name)
        elif change.kind == "rows-moved" and change.removes_rows:
            yield IgnoredChange("rows-moved", *change.name, how=change.detail)
        elif change.renamed_columns:
            yield IgnoredChange("rename-column", *change.name, change.renamed_columns)


def log_ignored(ignored: Iterable[IgnoredChange]) -> None:
    """Log a warning for each change of a whole table that is not applied."""
    for change in ignored:
        table = f"{change.database}.{change.table}"
        match change.kind:
            case "rename-column":
                columns = ",".join(f"{old}->{new}" for old, new in change.columns)
                log.warning("event=rename_not_followed table=%s columns=%s note=%s", table, columns, _KEPT[change.kind])
            case "rows-moved":
                log.warning("event=rows_moved_unlogged table=%s how=%s note=%s", table, change.how, _KEPT[change.kind])
            case kind:
                log.warning("event=%s_not_followed table=%s note=%s", kind, table, _KEPT[kind])
