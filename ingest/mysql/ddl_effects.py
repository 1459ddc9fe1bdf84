"""The consequences of DDL in the binlog for the batches around it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.ingest.mysql.binlog.plan import LoggedDdl
from penstock.ingest.mysql.ddl.alter import ChangeColumn, RenameColumnClause
from penstock.ingest.mysql.server.catalog import TableName
from penstock.ingest.mysql.settings import shadowed
from penstock.ingest.source import Barrier

log = logging.getLogger(__name__)

_KEPT = {
    "truncate": "its rows stay in the target table; use --on-truncate delete-all, or  ddl: {truncate: "
    "delete-all}  in a file, to delete them",
    "drop": "its rows stay in the target table; use --on-drop delete-all, or  ddl: {drop: delete-all}  in a "
    "file, to delete them",
    "rename-column": "the new name becomes a new column, and unchanged rows keep their value in the old one; use "
    "--on-rename-column rename, or  ddl: {rename-column: rename}  in a file, to rename the "
    "column",
}


@dataclass(frozen=True, slots=True)
class IgnoredChange:
    """A change of a whole table that is not applied to the target, because of the settings."""

    kind: Literal["truncate", "drop", "rename-column"]
    database: str
    table: str
    columns: tuple[tuple[str, str], ...] = ()


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


def given_up(pairs: Iterable[tuple[TableName, TableName]]) -> list[TableName]:
    """Return the names that no longer refer to the same rows: old names of renamed tables, except for a tool's swap."""
    known = list(pairs)
    kept = {new for old, new in known if is_a_tools_swap(old, new)}
    return [old for old, _ in known if old not in kept]


def barriers_of(seen: Sequence[LoggedDdl], takes: Callable[[TableName], bool], *, drops: bool) -> Iterator[Barrier]:
    """Yield the barriers of DDL that must be applied between batches, for captured tables only."""
    renamed = [(one.change.old_name, one.change.name) for one in seen if one.change.old_name is not None]
    yield from (Barrier("drop", *name) for name in given_up(renamed) if drops and takes(name))
    for one in seen:
        change = one.change
        if not takes(change.name):
            continue
        if change.kind == "truncate" or change.kind == "drop":  # noqa: PLR1714  told apart for the type
            yield Barrier(change.kind, *change.name)
        elif change.renamed_columns:
            yield Barrier("rename-columns", *change.name, change.renamed_columns)


def not_followed(seen: Sequence[LoggedDdl], takes: Callable[[TableName], bool]) -> Iterator[IgnoredChange]:
    """Yield changes of whole tables that are no barrier by the settings: the target keeps its rows, or its column."""
    renamed = [(one.change.old_name, one.change.name) for one in seen if one.change.old_name is not None]
    yield from (IgnoredChange("drop", *name) for name in given_up(renamed) if takes(name))
    for one in seen:
        change = one.change
        if not takes(change.name):
            continue
        if change.kind == "truncate" or change.kind == "drop":  # noqa: PLR1714  told apart for the type
            yield IgnoredChange(change.kind, *change.name)
        elif change.renamed_columns:
            yield IgnoredChange("rename-column", *change.name, change.renamed_columns)


def tell_of_ignored(ignored: Iterable[IgnoredChange]) -> None:
    """Log a warning for each change of a whole table that is not applied."""
    for one in ignored:
        table = f"{one.database}.{one.table}"
        match one.kind:
            case "rename-column":
                columns = ",".join(f"{old}->{new}" for old, new in one.columns)
                log.warning("event=rename_not_followed table=%s columns=%s note=%s", table, columns, _KEPT[one.kind])
            case kind:
                log.warning("event=%s_not_followed table=%s note=%s", kind, table, _KEPT[kind])
