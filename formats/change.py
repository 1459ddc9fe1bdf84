"""What every format is reduced to: rows of one source schema as Arrow columns, with row kinds and places.

A format module has one function, `decode(messages, options) -> Decoded`. It never raises for a record it cannot read:
such a record comes back in `bad` with its place, its bytes and the reason, and the caller's policy decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from penstock.formats.debezium.schema_registry import SchemaRegistry

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3

# Why a record is bad. The caller counts by these; the message says the rest.
NOT_JSON = "not-json"
NOT_AVRO = "not-avro"
MISSING_FIELD = "missing-field"
UNKNOWN_OPERATION = "unknown-operation"
BAD_VALUE = "bad-value"
NO_NAME = "no-name"  # of a table, where tables have to be told apart

TableName = tuple[str | None, str | None]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class SourceField:
    """One column as the producer declares it; `type` and `nullable` are None where the format declares none."""

    name: str
    type: str | None = None
    comment: str | None = None
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class SourceSchema:
    """`dialect` says how to read the type texts: mysql, debezium, avro, aliyun, or text where there are none.

    `comment` is the table's, None where the source tells none. Without `comments_follow` comments are for what is new:
    those of tables and columns that are there already stay as they are.
    """

    dialect: str
    database: str | None
    table: str | None
    fields: tuple[SourceField, ...]
    primary_keys: tuple[str, ...] = ()
    comment: str | None = None
    comments_follow: bool = True

    def __hash__(self) -> int:
        # Every batch of rows is looked up by its schema; hashes of all the fields would cost more than what is found.
        return hash((self.database, self.table, len(self.fields)))


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Rows of one source schema in message order: `columns` has one column per field of the schema, same order.

    `pos` is the offset of the message, `sub` the place in it (twice the row number, plus one for the row after the
    change), so that (pos, sub) orders all rows of a range whatever the batches they stand in. `event_time` is in
    milliseconds, -1 where the message has none.
    """

    schema: SourceSchema
    columns: pa.RecordBatch
    kinds: Kinds
    pos: Int64s
    sub: Int32s
    event_time: Int64s

    def __len__(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition in offset order. `keys` is None where the source has no keys."""

    values: Sequence[bytes | None]
    offsets: Int64s
    keys: Sequence[bytes | None] | None = None
    timestamps: Int64s | None = None

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Messages:
        keys = None if self.keys is None else self.keys[start:stop]
        timestamps = None if self.timestamps is None else self.timestamps[start:stop]
        return Messages(self.values[start:stop], self.offsets[start:stop], keys, timestamps)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A message of which no row was taken. `reason_class` is one of the constants above."""

    pos: int
    reason_class: str
    message: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Truncation:
    """The source emptied a table at this place; whether the target follows is the caller's option."""

    pos: int
    database: str | None
    table: str | None


@dataclass(slots=True)
class Decoded:
    """`skipped` counts messages without rows by operation; `repaired` counts texts with unpaired surrogates."""

    batches: list[ChangeBatch] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    truncations: list[Truncation] = field(default_factory=list)
    repaired: int = 0

    def extend(self, other: Decoded) -> None:
        self.batches += other.batches
        self.bad += other.bad
        self.skipped += other.skipped
        self.truncations += other.truncations
        self.repaired += other.repaired


@dataclass(frozen=True, slots=True)
class ImageRule:
    """Which rows an update gives in one source table.

    `watch`: columns whose change moves the row to another key or partition, so that it becomes -D and +I instead of
    -U and +U. With `before_images="key-changes"` an update that moves nothing gives +U alone.
    """

    before_images: Literal["all", "key-changes"] = "all"
    watch: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How to decode.

    `watch_columns` adds to the primary keys the messages declare; an entry in `tables` replaces both. `name_from` says
    which member of Debezium's `source` is the database, `ogg_name_parts=2` that only the first dot of a GoldenGate name
    counts, `zone` where event times without a zone are from. `registry` is for debezium-avro and stays in its process.
    """

    before_images: Literal["all", "key-changes"] = "all"
    watch_columns: frozenset[str] = frozenset()
    tables: Mapping[TableName, ImageRule] = field(default_factory=dict)
    name_from: Literal["db", "schema"] = "db"
    ogg_name_parts: int | None = None
    zone: str = "UTC"
    registry: SchemaRegistry | None = None
    # Groups of at least so many rows are parsed in bulk; below, a call's fixed cost outweighs the gain (measured).
    bulk_rows: int = 200

    def rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        own = self.tables.get((database, table))
        return own or ImageRule(self.before_images, self.watch_columns.union(primary_keys))
