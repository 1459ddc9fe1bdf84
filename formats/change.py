"""The common result of all formats: rows of one source schema as Arrow columns, with row kinds and positions.

A format module has one function, `decode(messages, options) -> DecodeResult`. It never raises for a record it cannot
read: such a record is returned in `bad` with its offset, its bytes and the reason, and the caller's policy decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.row_kinds import INSERT, RowKinds

# Reasons why a record is bad. The caller counts by these constants; the message has the details.
NOT_JSON = "not-json"
NOT_AVRO = "not-avro"
MISSING_FIELD = "missing-field"
UNKNOWN_OPERATION = "unknown-operation"
BAD_VALUE = "bad-value"
NO_NAME = "no-name"  # the table has no name, but tables must be distinguished by name

TableName = tuple[str | None, str | None]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SourceField:
    """One column as the producer declares it; `type` and `nullable` are None if the format declares neither."""

    name: str
    type: str | None = None
    comment: str | None = None
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class SourceSchema:
    """The columns and keys of one source table as the producer declares them.

    `dialect` is the language of the type texts: mysql, postgres, debezium, avro, aliyun, or text if no types are
    declared. `states_no_key`: the producer says that the table has no primary key; without keys and without this
    statement nothing is known about them.
    `comment` is the table's comment, None if the source has none. If `comments_follow` is false, comments apply only to
    new tables and columns: those of existing tables and columns stay as they are. `is_partial`: the table has no list
    of its columns, and later rows may have others.
    """

    dialect: str
    database: str | None
    table: str | None
    fields: tuple[SourceField, ...]
    primary_keys: tuple[str, ...] = ()
    comment: str | None = None
    comments_follow: bool = True
    states_no_key: bool = False
    is_partial: bool = False

    def __hash__(self) -> int:
        # Every batch of rows is looked up by its schema; hashing all fields would cost more than the lookup saves.
        return hash((self.database, self.table, len(self.fields)))


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of a changelog with their row kinds and places, in message order.

    `positions` are offsets of messages and `subs` places in them (twice the row number, plus one for an after image),
    so that (position, sub) orders all rows of a range regardless of the batches that contain them.
    """

    rows: pa.RecordBatch
    kinds: RowKinds
    positions: Int64s
    subs: Int32s

    def __len__(self) -> int:
        return len(self.kinds)

    def filter(self, kept: Bools) -> Self:
        """Return the rows for which `kept` is true."""
        return replace(
            self,
            rows=self.rows.filter(pa.array(kept)),
            kinds=self.kinds[kept],
            positions=self.positions[kept],
            subs=self.subs[kept],
        )


@dataclass(frozen=True, slots=True)
class ChangeBatch(RowBatch):
    """Rows of one source schema. `rows` has one column per field of the schema, in the same order.

    `event_times` are in milliseconds, -1 if the message has none.
    """

    schema: SourceSchema
    event_times: Int64s

    @classmethod
    def inserts(cls, schema: SourceSchema, rows: pa.RecordBatch, first: int = 0) -> ChangeBatch:
        """Return rows of a source snapshot, which have numbers from `first` on as positions and no event time."""
        count = len(rows)
        positions = np.arange(first, first + count, dtype=np.int64)
        kinds, subs = np.full(count, INSERT, np.int8), np.zeros(count, np.int32)
        return cls(rows, kinds, positions, subs, schema, np.full(count, -1, np.int64))

    def part(self, schema: SourceSchema, begin: int, end: int) -> ChangeBatch:
        """Return the rows from `begin` to `end`, which are those of another table with the same columns."""
        rows, part = self.rows.slice(begin, end - begin), slice(begin, end)
        kinds, positions, subs = self.kinds[part], self.positions[part], self.subs[part]
        return ChangeBatch(rows, kinds, positions, subs, schema, self.event_times[part])

    def filter(self, kept: Bools) -> ChangeBatch:
        return RowBatch.filter(replace(self, event_times=self.event_times[kept]), kept)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition in offset order. `keys` is None if the source has no keys."""

    values: Sequence[bytes | None]
    offsets: Int64s
    keys: Sequence[bytes | None] | None = None
    timestamps: Int64s | None = None

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Messages:
        """Return the messages with numbers in [start, stop)."""
        keys = None if self.keys is None else self.keys[start:stop]
        timestamps = None if self.timestamps is None else self.timestamps[start:stop]
        return Messages(self.values[start:stop], self.offsets[start:stop], keys, timestamps)

    def take(self, numbers: Int64s) -> Messages:
        """Return the messages with these numbers."""
        places = numbers.tolist()
        keys = None if self.keys is None else [self.keys[place] for place in places]
        timestamps = None if self.timestamps is None else self.timestamps[numbers]
        return Messages([self.values[place] for place in places], self.offsets[numbers], keys, timestamps)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A message from which no row was accepted. `reason_class` is one of the constants above.

    `raw` is empty until the record reaches code that has the message. So is `id`, the position in the words of a source
    whose messages have no numbers.
    """

    pos: int
    reason_class: str
    message: str
    raw: bytes = b""
    id: str | None = None

    @property
    def position(self) -> int | str:
        return self.pos if self.id is None else self.id


@dataclass(frozen=True, slots=True)
class Truncation:
    """A TRUNCATE of a source table at this position; an option of the caller decides whether the target follows."""

    pos: int
    database: str | None
    table: str | None


@dataclass(slots=True)
class DecodeResult:
    """The result of decoding.

    `skipped` counts messages without rows by operation, `repaired` texts with unpaired surrogates.
    """

    batches: list[ChangeBatch] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    truncations: list[Truncation] = field(default_factory=list)
    repaired: int = 0

    def extend(self, other: DecodeResult) -> None:
        """Add the result of decoding further messages."""
        self.batches += other.batches
        self.bad += other.bad
        self.skipped += other.skipped
        self.truncations += other.truncations
        self.repaired += other.repaired


@dataclass(frozen=True, slots=True)
class ImageRule:
    """The rows that an update of one source table yields.

    `watch`: columns whose change moves the row to another key or partition, so that it becomes -D and +I instead of -U
    and +U. With `before_images="key-changes"` an update that moves nothing yields +U alone. `sequence`: columns that
    decide which row of a key is newest; a delete without them would be older than every row, and have no effect.
    With `keeps_deleted` deleted rows stay with a mark, and keep the values of their delete.
    """

    before_images: Literal["all", "key-changes"] = "all"
    watch: frozenset[str] = frozenset()
    sequence: frozenset[str] = frozenset()
    keeps_deleted: bool = False

    def watches(self, name: str) -> bool:
        """Return whether a source column is watched. A catalog may fold names that the source spells in mixed case."""
        return name.lower() in {column.lower() for column in self.watch}

    def orders_by(self, name: str) -> bool:
        """Return whether a source column decides which row of a key is newest."""
        return name.lower() in {column.lower() for column in self.sequence}


class ImagePolicy(Protocol):
    """Decides which rows an update of a source table yields. It goes to tasks, so it must pickle."""

    def rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        """Return the image rule of a source table with these primary keys."""
        ...


class RegisteredSchemas(Protocol):
    """A schema registry: the writer's schema of a message, by the number that the message starts with."""

    def schema(self, number: int) -> Any:
        """Return the parsed JSON of a schema."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """The options of decoding.

    `images` decides which row images of an update are needed. Without it, `before_images` does for all tables, and
    `watch_columns` is added to the primary keys that the messages declare; an entry in `tables` replaces both.
    `name_from` selects the member of Debezium's `source` that is the database. `ogg_name_parts=2` makes only the first
    dot of a GoldenGate name a separator. `zone` is the time zone of event times without one. `registry` is for
    debezium-avro and cannot leave its process.
    """

    before_images: Literal["all", "key-changes"] = "all"
    watch_columns: frozenset[str] = frozenset()
    tables: Mapping[TableName, ImageRule] = field(default_factory=dict)
    images: ImagePolicy | None = None
    name_from: Literal["db", "schema"] = "db"
    ogg_name_parts: int | None = None
    zone: str = "UTC"
    registry: RegisteredSchemas | None = None
    # Groups of at least this many rows are parsed in bulk; below, the fixed cost of a call outweighs the gain
    # (measured).
    bulk_rows: int = 200

    def rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        """Return the image rule of a source table."""
        if self.images is not None:
            return self.images.rule(database, table, primary_keys)
        own = self.tables.get((database, table))
        return own or ImageRule(self.before_images, self.watch_columns.union(primary_keys))
