"""A chunk of a table: a range of keys with SQL literals as bounds, and the cursor at which the next chunk begins."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from penstock.errors import ConfigError
from penstock.ingest.mysql.definition import BYTES, INTEGER_BYTES
from penstock.ingest.mysql.errors import NoUsableKey
from penstock.ingest.mysql.position import DAMAGED_OFFSETS
from penstock.ingest.mysql.server.catalog import definitions, quoted
from penstock.ingest.mysql.server.connection import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from penstock.ingest.mysql.definition import MySqlColumn
    from penstock.ingest.mysql.server.connection import Connection


Literals = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """The size of chunks: `rows` rows or about `bytes`.

    Even cuts are used if the key is neither too sparse nor too dense.
    """

    rows: int = 50_000
    bytes: int = 64 << 20
    even_from: float = 0.05
    even_to: float = 1000.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows with a key in (lower, upper]; None means no bound. Bounds are SQL literals, one per key column.

    The last chunk of a table ends at the greatest key at the time of planning, so that it cannot grow while it waits:
    rows inserted after it arrive through the binlog. Where a chunk must be complete as of a position (`read_as_of`),
    its `open_end` form is used, which includes all later keys. With `where`, only rows that meet this condition of a
    user are read; which keys belong to the chunk does not depend on it.
    """

    database: str
    table: str
    number: int
    key: tuple[str, ...] = ()
    lower: Literals | None = None
    upper: Literals | None = None
    is_last: bool = False
    where: str = ""

    @property
    def open_end(self) -> Chunk:
        """The chunk without its upper bound if it is the last one of its table."""
        return replace(self, upper=None) if self.is_last else self

    @property
    def condition(self) -> str:
        """The WHERE clause of the chunk; comparisons are spelled out, because row constructors do not use the index."""
        parts = []
        if self.lower is not None:
            parts.append(key_condition(self.key, self.lower, ">", ">"))
        if self.upper is not None:
            parts.append(key_condition(self.key, self.upper, "<", "<="))
        return " AND ".join(parts) or "TRUE"


@dataclass(frozen=True, slots=True)
class ChunkCursor:
    """The progress of cutting one table: a few literals, for a table of any size.

    `step` is the key distance of even cuts, or the number of rows of walked ones; `rows` is the requested size of a
    chunk. `done` is true once the last chunk was returned. `where` is the condition of the chunks.
    """

    database: str
    table: str
    key: tuple[str, ...]
    way: Literal["even", "walk", "whole"]
    step: int
    number: int = 0
    lower: Literals | None = None
    limit: Literals | None = None
    estimate: int = 0
    done: bool = False
    rows: int = 0
    where: str = ""

    def to_json(self) -> dict[str, object]:
        made = asdict(self)
        if not self.where:
            # Without a condition, as versions before conditions read and write cursors.
            del made["where"]
        return made

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ChunkCursor:
        try:
            known = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
            return cls(**known)  # type: ignore[arg-type]
        except TypeError as error:
            raise ConfigError("the offsets contain no chunk cursor", value=dict(value), hint=DAMAGED_OFFSETS) from error


def key_condition(key: tuple[str, ...], bound: Literals, strictly: str, last: str) -> str:
    """Return a condition like `(a > 1 OR (a = 1 AND b > 2))`, which uses the index; `(a, b) > (1, 2)` does not.

    The bound of the first column is repeated in front, so that every optimizer recognizes the range.
    """
    names = [quoted(name) for name in key]
    if len(names) == 1:
        return f"{names[0]} {last} {bound[0]}"
    terms = []
    for place, name in enumerate(names):
        equal = [f"{names[before]} = {bound[before]}" for before in range(place)]
        sign = last if place == len(names) - 1 else strictly
        terms.append("(" + " AND ".join([*equal, f"{name} {sign} {bound[place]}"]) + ")")
    return f"{names[0]} {strictly}= {bound[0]} AND ({' OR '.join(terms)})"


_KEYS_A_QUERY = 500


def key_rows(connection: Connection, chunk: Chunk, keys: pa.Table) -> Iterator[list[tuple[str, ...]]]:
    """Yield these keys, reduced to the chunk's key columns, as lists of literals, some hundred at a time."""
    definition = definitions(connection, [(chunk.database, chunk.table)]).get((chunk.database, chunk.table))
    columns = [definition.column(name) for name in chunk.key] if definition else []
    if not columns or None in columns:
        raise NoUsableKey(
            "the table's key changed while a chunk of its snapshot was read",
            table=chunk.table,
            retryable=True,
            hint="start again, or set  pipeline: {on-error: {retries: N}} ",
        )
    collations = _collations(connection, chunk)
    spell = [_spelling(column, collations.get(column.name)) for column in columns if column is not None]
    # The keys become text of a statement, so Python objects are needed; there are few, because only keys that changed
    # in the binlog during the read are needed.
    values = [keys[column.name].to_pylist() for column in columns if column is not None]
    rows = zip(*values, strict=True)
    literals = [tuple(write(value) for write, value in zip(spell, row, strict=True)) for row in rows]
    for start in range(0, len(literals), _KEYS_A_QUERY):
        yield literals[start : start + _KEYS_A_QUERY]


def _collations(connection: Connection, chunk: Chunk) -> dict[str, str]:
    rows = ask(
        connection,
        "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " AND COLLATION_NAME IS NOT NULL",
        chunk.database,
        chunk.table,
    )
    return {str(row[0]): str(row[1]) for row in rows}


def _spelling(column: MySqlColumn, collation: str | None) -> Callable[[object], str]:
    base = column.type.base
    if collation is not None:
        # With the collation of the column, the server compares the key with the bounds as it compares the column
        # itself.
        convert = f"CONVERT(_utf8mb4 X'%s' USING {column.charset}) COLLATE {collation}"
        return lambda value: convert % str(value).encode().hex()
    if base in BYTES:
        return lambda value: f"X'{value.hex() if isinstance(value, bytes) else ''}'"
    if base == "bit":
        return lambda value: str(int.from_bytes(value, "big") if isinstance(value, bytes) else int(bool(value)))
    if base == "decimal":
        # With an exponent it would be a double, which different decimals may be equal to.
        return lambda value: f"{value:f}" if isinstance(value, Decimal) else str(value)
    if base in {*INTEGER_BYTES, "year"}:
        return str
    if base in {"datetime", "timestamp"}:
        return lambda value: f"CAST('{str(value).removesuffix('+00:00')}' AS DATETIME(6))"
    if base in {"date", "time"}:
        return lambda value: f"CAST('{value}' AS {base.upper()}{'(6)' if base == 'time' else ''})"
    return lambda value: f"'{value}'"
