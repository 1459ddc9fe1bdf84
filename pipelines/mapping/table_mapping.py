"""What the job asks of schema evolution: which table a change goes to, how it fits, what the table must become."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.change import BadRecord, ChangeBatch, DecodeOptions, SourceSchema
from penstock.ingest.fetched_chunk import Fetched
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows in the table's columns and types. Messages with a value that does not fit are in `bad`, not in the rows."""

    batch: pa.RecordBatch
    kinds: npt.NDArray[np.uint8]
    pos: npt.NDArray[np.int64]
    sub: npt.NDArray[np.int32]
    bad: tuple[BadRecord, ...] = ()
    dropped: int = 0  # -U and -D rows that an append table does not take
    nulled: int = 0  # values that are null by a rule: zero dates, times outside of a day


@dataclass(frozen=True, slots=True)
class Seen:
    """A source schema that the table, as the task knew it, does not hold: drift. Small: it travels to the driver."""

    table: str
    schema: SourceSchema
    first: tuple[int, int]  # range number and position: the order in which schemas are folded
    place: str | None = None  # of the range, for errors
    by_message: bool = False  # a message declares what it likes; a database's own log declares what is


class Shaping(Protocol):
    """Holds settings only, so it pickles. Called in tasks; `evolved` on the driver."""

    def decode_options(self, known: Mapping[str, TableSchema]) -> DecodeOptions: ...

    def target(self, database: str | None, table: str | None) -> str | None:
        """`database.table` of the warehouse, None when the source table is left out."""
        ...

    def column(self, source: str) -> str:
        """The name that a source column has in its table."""
        ...

    def transformed(
        self, change: ChangeBatch, fetched: Fetched | None, now_millis: int
    ) -> tuple[ChangeBatch, tuple[BadRecord, ...]]:
        """The change as it is routed: filtered, projected, masked; and the messages that could not be."""
        ...

    def fit(self, change: ChangeBatch, table: TableSchema, fetched: Fetched | None, now_millis: int) -> Fitted | None:
        """None when the table lacks a column or a type that the change needs: drift.

        `now_millis` is the batch's one instant, the same when the batch is read again.
        """
        ...

    def left_out(self, change: ChangeBatch, table: TableSchema, fetched: Fetched | None) -> tuple[str, ...]:
        """The columns that the source leaves out of updates, and that become null by it."""
        ...

    def adopt(self, known: Collection[str]) -> None:
        """At the start: bring tables that are there already to what the settings say; ConfigError where they contradict
        them. Called again, it changes nothing."""
        ...

    def commented(self, table: str, seen: Sequence[Seen]) -> TableSchema | None:
        """The table with the comments of these schemas, the newest of each source table; None where it has them."""
        ...

    def nonsense(self, source: SourceSchema, table: TableSchema | None) -> str | None:
        """Why messages that declare this schema are bad records and no drift; None where they are not."""
        ...

    def foreseen(self, table: str, current: TableSchema, source: SourceSchema) -> TableSchema | None:
        """What `evolved` would make of a table for one more schema, without making it; None where it would refuse."""
        ...

    def evolved(self, table: str, current: TableSchema | None, seen: Sequence[Seen]) -> TableSchema:
        """Make the table hold all these schemas, create it if need be, and give its newest version."""
        ...
