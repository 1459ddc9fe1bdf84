"""Versions of tables in the catalog, and the columns that got values between two of them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.catalog import TableName, primary_keys
from penstock.ingest.postgres.server.silent_columns import NONE, SilentColumns

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection

_MARK = 3  # letters that replace a column's name, since offsets contain the columns of all tables


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as a plan saw it.

    `columns` is the highest number of a column, which is never given twice. `key` is the primary key: the log does not
    name it. `names` has a mark for each column that the table has or had. `files` and `marks` are as in `PgTableFacts`,
    so are `parts` and `silent`; `key_marks` is like `marks` for the columns of the key alone, and `published` is the
    table's number in the publication. Offsets of an older release lack them.
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

    def is_same(self, table: PgTableFacts) -> bool:
        then = (self.oid, self.columns, self.files, self.marks, self.parts, self.silent)
        return then == (table.oid, table.columns, table.files, table.marks, table.parts, table.silent)

    def is_rewritten(self, table: PgTableFacts) -> bool:
        """Return whether a statement has rewritten all rows of the table since."""
        return bool(self.files and table.files) and self.files != table.files

    def has_changed_values(self, table: PgTableFacts) -> bool:
        """Return whether values of columns may be others than then: rows and a column were both written."""
        return self.is_rewritten(table) and self.marks != table.marks

    def had(self, column: str) -> bool:
        """Return whether the table had a column of this name, or rarely one whose name has the same mark."""
        return _mark(column) in _marks(self.names)

    def after(self, earlier: TableVersion | None) -> TableVersion:
        """Return the version with the names of columns, and the publication, of an earlier one of the same table."""
        if earlier is None or earlier.oid != self.oid:
            return self
        names = _joined([*_marks(earlier.names), *_marks(self.names)])
        return replace(self, names=names, published=earlier.published)


def versions_of(connection: PgConnection, tables: Sequence[PgTableFacts]) -> dict[TableName, TableVersion]:
    """Return the current versions of tables."""
    if not tables:
        return {}
    some = ", ".join(str(one.oid) for one in tables)
    keys = primary_keys(connection, some)
    columns: dict[int, dict[str, str]] = {}
    for oid, name, made in connection.rows(
        "SELECT attrelid, attname, xmin FROM pg_attribute "
        f"WHERE attrelid IN ({some}) AND attnum > 0 AND NOT attisdropped"
    ):
        columns.setdefault(int(str(oid)), {})[str(name)] = str(made)
    return {one.name: _version(one, keys.get(one.oid, ()), columns.get(one.oid, {})) for one in tables}


def _version(table: PgTableFacts, key: tuple[str, ...], columns: Mapping[str, str]) -> TableVersion:
    marks = zlib.crc32(json.dumps([columns.get(name) for name in key]).encode())
    names = _joined(map(_mark, columns))
    numbers = (table.files, table.marks, marks)
    return TableVersion(table.oid, table.columns, key, names, *numbers, table.parts, table.silent)


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


def renamed_columns(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> list[str]:
    """Return the columns that a version had under other names, unless the table had these names before too.

    Offsets of an older release have no names: nothing is known of its columns.
    """
    if not before.names:
        return []
    rows = connection.rows(
        f"SELECT attname FROM pg_attribute WHERE attrelid = {now.oid} AND attnum BETWEEN 1 AND {before.columns} "
        "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
    )
    return [str(name) for (name,) in rows if not before.had(str(name))]


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


def _joined(marks: Iterable[str]) -> str:
    return "".join(dict.fromkeys(marks))
