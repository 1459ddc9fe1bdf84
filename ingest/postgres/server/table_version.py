"""Versions of tables in the catalog, and the columns that got values between two of them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.catalog import TableName, primary_keys
from penstock.ingest.postgres.server.silent_columns import NONE, SilentColumns

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection

_MARK = 3  # letters that replace a column's name, since offsets contain the columns of all tables
_UNKNOWN = "---"  # the name of a column that was dropped before the first plan


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as a plan saw it.

    `columns` is the highest number of a column, which is never given twice. `key` is the primary key: the log does not
    name it. `names` has a mark for each column in the order of their numbers, then the marks of former names. `files`
    and `marks` are as in `PgTableFacts`, so are `parts`, `silent` and `toast`; `key_marks` is like `marks` for the
    columns of the key alone, and `published` is the table's number in the publication. Offsets of an older release lack
    them.
    """

    oid: int
    columns: int
    key: tuple[str, ...] = ()
    names: str = ""
    files: int = 0
    marks: int = 0
    key_marks: int = 0
    parts: tuple[int, ...] = ()
    silent: SilentColumns = NONE
    published: int = 0
    toast: int = 0

    def is_same(self, table: PgTableFacts) -> bool:
        then = (self.oid, self.columns, self.files, self.marks, self.parts, self.silent, self.toast)
        now = (table.oid, table.columns, table.files, table.marks, table.parts, table.silent, table.toast)
        return then == now and self.key == table.key

    def is_rewritten(self, table: PgTableFacts) -> bool:
        """Return whether a statement has rewritten all rows of the table since."""
        return bool(self.files and table.files) and self.files != table.files

    def has_changed_values(self, table: PgTableFacts) -> bool:
        """Return whether values may have changed since: the rows and the definition of a column were both written."""
        return self.is_rewritten(table) and self.marks != table.marks

    def may_have_been_unlogged(self, table: PgTableFacts) -> bool:
        """Return whether all rows were rewritten, but no column: SET UNLOGGED and SET LOGGED do that.

        So do SET ACCESS METHOD and the extension pg_repack, which swaps the tables of long values. Of a table without
        columns of a variable length it is not known.
        """
        same = (self.columns, self.marks, self.parts) == (table.columns, table.marks, table.parts)
        return same and bool(table.toast) and self.toast not in {0, table.toast}

    def had(self, column: str) -> bool:
        """Return whether the table had a column of this name, or rarely one whose name has the same mark."""
        return _mark(column) in _marks(self.names)

    def after(self, earlier: TableVersion | None) -> TableVersion:
        """Return the version with the names of columns, and the publication, of an earlier one of the same table."""
        if earlier is None or earlier.oid != self.oid:
            return self
        then, now = _marks(earlier.names), _marks(self.names)
        # A dropped column has no name any more.
        places = zip_longest(now, then[: min(len(now), earlier.columns)], fillvalue=_UNKNOWN)
        now = [place if place != _UNKNOWN else place_then for place, place_then in places]
        former = [name for name in dict.fromkeys(then) if name not in now]
        return replace(self, names="".join([*now, *former]), published=earlier.published)

    def name_of(self, number: int) -> str:
        """Return the mark of the name that the column of this number had."""
        return self.names[(number - 1) * _MARK : number * _MARK]


def versions_of(connection: PgConnection, tables: Sequence[PgTableFacts]) -> dict[TableName, TableVersion]:
    """Return the current versions of tables."""
    if not tables:
        return {}
    numbers = ", ".join(str(table.oid) for table in tables)
    keys = primary_keys(connection, numbers)
    columns: dict[int, dict[str, tuple[int, str]]] = {}
    for oid, name, number, made in connection.rows(
        "SELECT attrelid, attname, attnum, xmin FROM pg_attribute "
        f"WHERE attrelid IN ({numbers}) AND attnum > 0 AND NOT attisdropped"
    ):
        columns.setdefault(int(str(oid)), {})[str(name)] = int(str(number)), str(made)
    return {table.name: _version(table, keys.get(table.oid, ()), columns.get(table.oid, {})) for table in tables}


def _version(table: PgTableFacts, key: tuple[str, ...], columns: Mapping[str, tuple[int, str]]) -> TableVersion:
    made = {name: column for name, (_, column) in columns.items()}
    marks = zlib.crc32(json.dumps([made.get(name) for name in key]).encode())
    marked = {number: _mark(name) for name, (number, _) in columns.items()}
    names = "".join(marked.get(number, _UNKNOWN) for number in range(1, table.columns + 1))
    numbers = (table.files, table.marks, marks)
    return TableVersion(table.oid, table.columns, key, names, *numbers, table.parts, table.silent, 0, table.toast)


def filled_columns(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> list[str]:
    """Return the columns added since a version whose value in older rows is not the null that the target has.

    These are columns with a default or an identity, and those that cannot be null. The catalog knows a constant
    default even after it was dropped; one with another value for each row lets all rows be rewritten. A column with
    a name that the table had before is not the same column: older rows have lost their values.
    """
    is_written = before.is_rewritten(now)
    rows = connection.rows(
        "SELECT attname, atthasdef OR atthasmissing OR attnotnull OR attidentity <> '' FROM pg_attribute WHERE "
        f"attrelid = {now.oid} AND attnum > {before.columns} AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
    )
    return [str(name) for name, filled in rows if is_written or filled == "t" or before.had(str(name))]


def renamed_columns(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> tuple[list[str], list[str]]:
    """Return the columns that a version had under other names: with new names, and with names that the table had.

    Offsets of an older release have no names, or do not say which column had which: what is not known is not returned.
    """
    if not before.names or before.marks == now.marks:
        return [], []
    rows = connection.rows(
        f"SELECT attname, attnum FROM pg_attribute WHERE attrelid = {now.oid} AND attnum BETWEEN 1 AND "
        f"{before.columns} AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
    )
    former = {str(name): before.name_of(int(str(number))) for name, number in rows}
    renamed = [name for name, mark in former.items() if mark != _mark(name)]
    taken = [name for name in renamed if before.had(name)]
    return [name for name in renamed if name not in taken], [name for name in taken if former[name] != _UNKNOWN]


def new_in_key(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> list[str]:
    """Return the columns of the key that were not in the key of a version, also under another name."""
    added = [name for name in now.key if name not in before.key]
    if not added or not before.key:
        return []
    names = ", ".join(connection.literal(name) for name in added)
    rows = connection.rows(
        f"SELECT attname, attnum FROM pg_attribute WHERE attrelid = {now.oid} AND attname IN ({names}) ORDER BY attnum"
    )
    former = {_mark(name) for name in before.key}
    return [str(name) for name, number in rows if before.name_of(int(str(number))) not in former]


def with_unknown_places(names: str, columns: int) -> str:
    """Return the unordered names of an older release as the names of a version with this number of columns."""
    return names and _UNKNOWN * columns + names


def last_changed_columns(connection: PgConnection, table: PgTableFacts) -> list[str]:
    """Return the columns that the newest statement on columns of a table changed."""
    rows = connection.rows(
        "SELECT attname, rank() OVER (ORDER BY age(xmin)) FROM pg_attribute WHERE "
        f"attrelid = {table.oid} AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
    )
    return [str(name) for name, place in rows if str(place) == "1"]


def _mark(column: str) -> str:
    return base64.b64encode(zlib.crc32(column.encode()).to_bytes(4, "big")).decode()[:_MARK]


def _marks(names: str) -> list[str]:
    return [names[at : at + _MARK] for at in range(0, len(names), _MARK)]
