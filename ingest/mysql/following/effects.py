"""What DDL that the log shows means for the batches around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.ingest.barriers import Barrier
from penstock.ingest.mysql.catalog import TableName
from penstock.ingest.mysql.ddl.alter import ChangeColumn, RenameColumn
from penstock.ingest.mysql.following.settings import shadowed
from penstock.ingest.mysql.log.plan import DdlSeen


def renames_column(change: object) -> bool:
    match change:
        case RenameColumn():
            return True
        case ChangeColumn(old, parsed):
            return old.lower() != parsed.column.name.lower()
    return False


def is_a_tools_swap(old: TableName, new: TableName) -> bool:
    """Whether a schema change tool puts its copy in its table's place."""
    return old[0] == new[0] and shadowed(old[1]) == new[1]


def given_up(pairs: Iterable[tuple[TableName, TableName]]) -> list[TableName]:
    """The names that no longer mean the rows they meant: of tables that were renamed, save for a tool's swap."""
    known = list(pairs)
    kept = {new for old, new in known if is_a_tools_swap(old, new)}
    return [old for old, _ in known if old not in kept]


def barriers_of(seen: Sequence[DdlSeen], takes: Callable[[TableName], bool], *, drops: bool) -> Iterator[Barrier]:
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
