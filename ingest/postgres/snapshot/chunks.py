"""Chunks of tables: cut by their primary keys, and read as inserts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch
from penstock.formats.demand import Demand, needed
from penstock.ingest.database.sql_conditions import described, where
from penstock.ingest.postgres.server.catalog import as_logged, own_rows, quoted, relations
from penstock.ingest.postgres.server.connection import kept_connected
from penstock.ingest.postgres.snapshot.conditions import PgConditions
from penstock.ingest.postgres.values.columns import value_column
from penstock.ingest.postgres.values.copy_rows import cells_of, rows_of
from penstock.ingest.postgres.values.windows import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.byte_buffers import Bools
    from penstock.formats.demand import DemandPolicy
    from penstock.ingest.postgres.relation import Relation
    from penstock.ingest.postgres.server.address import PgAddress
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection


Bound = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyChunk:
    """The rows of a table whose key is after `lower` and not after `upper`; an empty bound is open.

    Keys are compared by the server: bounds are texts with the types in `types`. With `where`, only rows that meet this
    condition of a user are read; which keys belong to the chunk does not depend on it.
    """

    oid: int
    schema: str
    table: str
    key: tuple[str, ...]
    types: tuple[str, ...]
    lower: Bound = ()
    upper: Bound = ()
    number: int = 0
    where: str = ""

    @property
    def name(self) -> tuple[str, str]:
        return self.schema, self.table

    def condition(self, connection: PgConnection) -> str:
        """Return the condition of the chunk. A comparison of rows is a range scan of the key's index."""
        parts = []
        row = f"({', '.join(map(quoted, self.key))})"
        for sign, bound in ((">", self.lower), ("<=", self.upper)):
            if bound:
                values = (f"{connection.literal(value)}::{kind}" for value, kind in zip(bound, self.types, strict=True))
                # Unlike MySQL, PostgreSQL uses the index for a comparison of rows.
                parts.append(f"{row} {sign} ({', '.join(values)})")
        return " AND ".join(parts) or "true"

    def to_json(self) -> list[Any]:
        lists = [list(self.key), list(self.types), list(self.lower), list(self.upper)]
        return [self.oid, self.schema, self.table, *lists, self.number, *([self.where] if self.where else [])]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> KeyChunk:
        oid, schema, table, key, types, lower, upper, number, *where = value
        return cls(oid, schema, table, tuple(key), tuple(types), tuple(lower), tuple(upper), number, *where)


def first_chunk(connection: PgConnection, table: PgTableFacts) -> KeyChunk | None:
    """Return a chunk of the whole table, from which chunks are cut; None if the table is gone or has no key."""
    found = relations(connection, [table.oid]).get(table.oid)
    if found is None or not found.key:
        return None
    types: Mapping[str, str] = {
        str(name): str(kind)
        for name, kind in connection.rows(
            f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {table.oid} "
            "AND attnum > 0 AND NOT attisdropped"
        )
    }
    return KeyChunk(table.oid, found.schema, found.table, found.key, tuple(types[name] for name in found.key))


def cut_chunk(connection: PgConnection, rest: KeyChunk, rows: int) -> tuple[KeyChunk, KeyChunk | None]:
    """Return a chunk of about this many rows, and the rest after it, None if the chunk is the last one."""
    names = ", ".join(map(quoted, rest.key))
    # As texts, which are stored in the offsets and cast back to the types of the key by the server.
    texts = ", ".join(f"{quoted(name)}::text" for name in rest.key)
    table = own_rows(rest.name, connection.value(f"SELECT relkind FROM pg_class WHERE oid = {rest.oid}") or "")
    found = connection.rows(
        f"SELECT {texts} FROM {table} WHERE {rest.condition(connection)} ORDER BY {names} OFFSET {rows - 1} LIMIT 1"
    )
    if not found:
        return rest, None
    bound = tuple(str(value) for value in found[0])
    return replace(rest, upper=bound), replace(rest, lower=bound, number=rest.number + 1)


BLOCK_BYTES = 8 << 20
_NO_SUCH_COLUMN, _NO_SUCH_TABLE = "42703", "42P01"


def read_chunk(
    server: PgAddress,
    chunk: KeyChunk,
    oddities: Counter[str],
    policy: DemandPolicy | None = None,
    check: Callable[[PgConnection], None] = lambda _: None,
) -> Iterator[ChangeBatch]:
    """Yield the chunk's current rows over a separate connection, which has to pass the check.

    The rows are consistent within one statement.

    The rows have the current columns of the table. A table that was dropped in the meantime yields nothing. Holds one
    block in memory.
    """
    with kept_connected(server) as connection:
        check(connection)
        for attempt in range(3):
            relation = relations(connection, [chunk.oid]).get(chunk.oid)
            if relation is None:
                return
            started = False
            try:
                for batch in chunk_batches(connection, chunk, relation, oddities, policy):
                    started = True
                    yield batch
                return
            except SourceError as error:
                # The table was altered between the lookup of its columns and the statement: look them up again.
                altered = error.facts.get("sqlstate") in {_NO_SUCH_COLUMN, _NO_SUCH_TABLE}
                if started or attempt == 2 or not altered:
                    raise


def chunk_batches(
    connection: PgConnection,
    chunk: KeyChunk,
    relation: Relation,
    oddities: Counter[str],
    policy: DemandPolicy | None = None,
) -> Iterator[ChangeBatch]:
    """Yield the rows of the chunk that are needed, on a given connection, within the transaction that it is in."""
    row, (demand, condition) = 0, _selected(relation, policy)
    relation = replace(relation, columns=tuple(column for column in relation.columns if demand.includes(column.name)))
    shapes = [Shape.of(column.type) for column in relation.columns]
    for block in connection.copied(_statement(connection, chunk, relation, condition), BLOCK_BYTES):
        messages = rows_of(block)
        if not len(messages):
            continue
        arrays = [
            value_column(cells, relation, column, oddities, binary=column.type.is_binary)
            for column, cells in zip(relation.columns, cells_of(messages, shapes), strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in relation.columns])
        yield ChangeBatch.inserts(relation.source_schema, rows, row)
        row += len(messages)


def check_selected(connection: PgConnection, relation: Relation, policy: DemandPolicy | None) -> None:
    """Raise SourceError if the server does not let the user select the part of the table that is needed."""
    demand, condition = _selected(relation, policy)
    relation = replace(relation, columns=tuple(column for column in relation.columns if demand.includes(column.name)))
    whole = KeyChunk(relation.oid, *relation.name, relation.key, ())
    connection.rows(f"{_statement(connection, whole, relation, condition)} LIMIT 0")


def _selected(relation: Relation, policy: DemandPolicy | None) -> tuple[Demand, str | None]:
    """Return which part of a table is needed, and the condition that the server evaluates."""
    demand = needed(policy, relation.source_schema)
    return demand, where(demand.condition, PgConditions({column.name: column.type for column in relation.columns}))


def columns_selected(relations: Mapping[int, Relation], policy: DemandPolicy | None) -> dict[int, list[str]]:
    """Return the columns that are selected of each table, by its number."""
    demands = {oid: needed(policy, relation.source_schema) for oid, relation in relations.items()}
    return {
        oid: [column.name for column in relations[oid].columns if demands[oid].includes(column.name)]
        for oid in relations
    }


def selections(relations: Iterable[Relation], policy: DemandPolicy | None) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return descriptions of the selected part of each table that is not read as a whole."""
    parts = {relation.name: (relation, *_selected(relation, policy)) for relation in relations}
    lines = {
        name: described(demand, len(relation.columns), condition)
        for name, (relation, demand, condition) in parts.items()
    }
    return {name: text for name, text in lines.items() if text}


def _statement(connection: PgConnection, chunk: KeyChunk, relation: Relation, condition: str | None) -> str:
    # Columns are named: `*` would also select generated columns, which the log does not contain.
    # Values whose binary form is not decoded are selected as text, column by column.
    columns = (as_logged(quoted(column.name), column.type) for column in relation.columns)
    # The condition is no part of the chunk: whether a key belongs to the chunk does not depend on it.
    rows = chunk.condition(connection) + ("" if condition is None else f" AND {condition}")
    return f"SELECT {', '.join(columns)} FROM {own_rows(relation.name, relation.kind)} WHERE {rows}"


_KEYS_AT_ONCE = 1000


def in_chunk(connection: PgConnection, chunk: KeyChunk, keys: pa.Table) -> Bools:
    """Return which of these keys are within the chunk's bounds, by the server's comparison rules."""
    columns = [key_literals(connection, keys[name].combine_chunks()) for name in chunk.key]
    names = ", ".join(map(quoted, chunk.key))
    answers: list[bool] = []
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        rows = zip(*(column[first : first + _KEYS_AT_ONCE] for column in columns), strict=True)
        lines = (
            f"({place}, {', '.join(f'{value}::{kind}' for value, kind in zip(row, chunk.types, strict=True))})"
            for place, row in enumerate(rows)
        )
        found = connection.rows(
            f"SELECT {chunk.condition(connection)} FROM (VALUES {', '.join(lines)}) k(n, {names}) ORDER BY n"
        )
        answers += [value == "t" for (value,) in found]
    return np.array(answers, np.bool_)


def key_literals(connection: PgConnection, column: pa.Array) -> list[str]:
    """Return values of a key column as literals of SQL."""
    if pa.types.is_binary(column.type):
        return [f"'\\x{value.hex()}'" for value in column.to_pylist()]
    return [connection.literal(text) for text in pc.cast(column, pa.string()).to_pylist()]
