"""Versions of tables in the catalog, and the columns that were added between two of them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.catalog import TableName, primary_keys

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection

_MARK = 3  # letters for the name of a column: offsets contain those of all tables


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as a plan saw it.

    `columns` is the highest number of a column, which is never given twice. `key` is the primary key: the log does not
    name it. `names` has a mark for each column that the table has or had.
    """

    oid: int
    columns: int
    key: tuple[str, ...] = ()
    names: str = ""

    def is_same(self, table: PgTableFacts) -> bool:
        return (self.oid, self.columns) == (table.oid, table.columns)

    def had(self, column: str) -> bool:
        """Return whether the table had a column of this name, or rarely one whose name has the same mark."""
        return _mark(column) in _marks(self.names)

    def after(self, earlier: TableVersion | None) -> TableVersion:
        """Return the version with the names of columns that an earlier one of the same table had."""
        if earlier is None or earlier.oid != self.oid:
            return self
        return replace(self, names=_joined([*_marks(earlier.names), *_marks(self.names)]))


def versions_of(connection: PgConnection, tables: Sequence[PgTableFacts]) -> dict[TableName, TableVersion]:
    """Return the versions of tables as they are now."""
    if not tables:
        return {}
    some = ", ".join(str(one.oid) for one in tables)
    keys = primary_keys(connection, some)
    marks: dict[int, list[str]] = {}
    for oid, name in connection.rows(
        f"SELECT attrelid, attname FROM pg_attribute WHERE attrelid IN ({some}) AND attnum > 0 AND NOT attisdropped"
    ):
        marks.setdefault(int(str(oid)), []).append(_mark(str(name)))
    return {
        one.name: TableVersion(one.oid, one.columns, keys.get(one.oid, ()), _joined(marks.get(one.oid, ())))
        for one in tables
    }


def filled_columns(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> list[str]:
    """Return the columns added since a version whose value in older rows is not the null that the target has.

    These are columns with a default or an identity, and those that cannot be null. The catalog knows a constant
    default even after it was dropped. A column with a name that the table had before is not the same column: older rows
    have lost their values.
    """
    rows = connection.rows(
        "SELECT attname, atthasdef OR atthasmissing OR attnotnull OR attidentity <> '' FROM pg_attribute WHERE "
        f"attrelid = {now.oid} AND attnum > {before.columns} AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
    )
    return [str(name) for name, filled in rows if filled == "t" or before.had(str(name))]


def _mark(column: str) -> str:
    return base64.b64encode(zlib.crc32(column.encode()).to_bytes(4, "big")).decode()[:_MARK]


def _marks(names: str) -> list[str]:
    return [names[at : at + _MARK] for at in range(0, len(names), _MARK)]


def _joined(marks: Iterable[str]) -> str:
    return "".join(dict.fromkeys(marks))
