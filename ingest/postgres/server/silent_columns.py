"""Columns with older values that a statement changes without writing the rows or the log.

ALTER TYPE ... RENAME VALUE changes a label of an enum, which is in every value of its columns; so does a new or dropped
attribute of a composite type. ALTER COLUMN ... DROP EXPRESSION leaves the values that a generated column had, which the
log lacks. Each such column has a number in the catalog that is another one after such a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.catalog_numbers import row_number, rows_number

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

_GENERATED = 0  # the number of a generated column: that of no rows
_FIRST_OF_USERS = 16384  # types and tables with lower numbers came with the server
_IN_A_TYPE = (
    "SELECT unnest(ARRAY[t.typbasetype, t.typelem]) FROM pg_type t WHERE t.oid = i.part "
    "UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE i.part IN (r.rngtypid, r.rngmultitypid) "
    "UNION ALL SELECT a.atttypid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid "
    "WHERE t.oid = i.part AND a.attnum > 0 AND NOT a.attisdropped"
)


@dataclass(frozen=True, slots=True)
class SilentColumns:
    """The numbers of such columns of a table, by the number of the column; `newest` is the highest one of a label.

    ADD VALUE makes a label with a higher number than all before, so that the others can be compared without it.
    """

    newest: int = 0
    numbers: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> list[int]:
        return [self.newest, *(part for pair in self.numbers.items() for part in pair)]

    @classmethod
    def from_json(cls, value: Sequence[int]) -> SilentColumns:
        return cls(value[0], dict(zip(value[1::2], value[2::2], strict=True)))


NONE = SilentColumns()


def silent_columns(connection: PgConnection, oid: int = 0, newest: int | None = None) -> dict[int, SilentColumns]:
    """Return such columns by the number of their table: of all tables, or of one without labels after `newest`."""
    of_table = f"AND c.oid = {oid} " if oid else ""
    older = "" if newest is None else f"WHERE e.oid <= {newest}::oid "
    rows = connection.rows(
        "WITH RECURSIVE own AS (SELECT a.attrelid, a.attnum, a.atttypid, a.attgenerated <> '' AS made FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition "
        f"AND c.oid >= {_FIRST_OF_USERS} {of_table}AND a.attnum > 0 AND NOT a.attisdropped "
        f"AND (a.atttypid >= {_FIRST_OF_USERS} OR a.attgenerated <> '')), "
        "inside(kind, part) AS (SELECT atttypid, atttypid FROM own WHERE NOT made UNION SELECT i.kind, p.part "
        f"FROM inside i CROSS JOIN LATERAL ({_IN_A_TYPE}) p(part) WHERE p.part >= {_FIRST_OF_USERS}), "
        # The transaction that wrote a label last: a label that got its former name back was another one meanwhile.
        # ADD VALUE ... BEFORE rewrites all labels of a type when no number is left between two of them.
        f"numbers(kind, label, number) AS (SELECT i.kind, e.oid::int8, {row_number('e.oid', 'e.xmin')} "
        f"FROM inside i JOIN pg_enum e ON e.enumtypid = i.part {older}UNION ALL "
        f"SELECT i.kind, 0, {row_number('a.attrelid', 'a.attnum')} FROM inside i JOIN pg_type t "
        "ON t.oid = i.part JOIN pg_attribute a ON a.attrelid = t.typrelid WHERE a.attnum > 0 AND NOT a.attisdropped) "
        f"SELECT o.attrelid, o.attnum, COALESCE(max(n.label), 0), {rows_number('n.number')} FROM own o "
        "LEFT JOIN numbers n ON n.kind = o.atttypid AND NOT o.made GROUP BY 1, 2, o.made "
        "HAVING o.made OR count(n.number) > 0 ORDER BY 1, 2"
    )
    found: dict[int, SilentColumns] = {}
    for table, column, label, number in rows:
        before = found.get(int(str(table)), NONE)
        numbers = {**before.numbers, int(str(column)): int(str(number))}
        found[int(str(table))] = SilentColumns(max(before.newest, int(str(label))), numbers)
    return found


def changed_silently(
    connection: PgConnection, oid: int, before: SilentColumns, now: SilentColumns
) -> tuple[list[str], list[str]]:
    """Return the columns whose values have changed since: generated columns, and columns with changed labels."""
    if before == now or not before.numbers:
        return [], []
    if before.newest < now.newest:
        now = silent_columns(connection, oid, before.newest).get(oid, NONE)
    others = [column for column, number in before.numbers.items() if now.numbers.get(column) != number]
    if not others:
        return [], []
    rows = connection.rows(
        f"SELECT attnum, attname FROM pg_attribute WHERE attrelid = {oid} AND attnum IN "
        f"({', '.join(map(str, others))}) AND NOT attisdropped ORDER BY attnum"
    )
    were_generated = {column for column in others if before.numbers[column] == _GENERATED}
    made = [str(name) for column, name in rows if int(str(column)) in were_generated]
    return made, [str(name) for _, name in rows if str(name) not in made]
