"""Bad records: the policy for them, how many stop the job, and the dead-letter table.

Dead letters are rows, committed together with their batch, from which they can be replayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, DecodeError
from penstock.formats.change import BadRecord
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema

Action = Literal["fail", "skip", "dead-letter"]

FEW = 10  # up to this number the share never applies: a batch may contain only a handful of records
MOST = 1000
SHARE = 0.1
BATCHES = 100  # a topic with little traffic is judged by many recent batches, not by its last two records


@dataclass(frozen=True, slots=True)
class OnBad:
    """The policy for bad records.

    `table` is the dead-letter table. A batch with more than `most` bad records, or with a larger share of them than
    `share`, stops the job, because that indicates a wrong setting rather than bad records. With
    `shows_records`, errors contain the record.
    """

    action: Action = "fail"
    pipeline: str = ""
    table: str | None = None
    most: int = MOST
    share: float = SHARE
    shows_records: bool = True

    @property
    def letters(self) -> frozenset[str]:
        """The dead-letter table as a set of tables: empty if dead letters are not written."""
        return frozenset() if self.table is None else frozenset({self.table})

    def error(self, record: BadRecord, place: str, table: str | None = None) -> DecodeError:
        return DecodeError(
            record.message,
            place=place,
            offset=record.position,
            table=table,
            record=repr(record.raw[:200]) if self.shows_records else None,
            hint="--on-bad-record dead-letter , in a file  errors: {bad-record: dead-letter} , keeps such records in a"
            " table;  skip  instead of  dead-letter  leaves them out",
        )


FAIL = OnBad()


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy of a pipeline for records and tables that fail.

    `isolates`: a table that fails is parked, and the others continue. `leaves_out`: a new table that cannot be created
    is left out. `ignore_incompatible`: a table that cannot store the types of its source is left out too.
    """

    on_bad: OnBad = FAIL
    isolates: bool = False
    leaves_out: bool = False
    ignore_incompatible: bool = False


STRICT = ErrorPolicy()  # the first error ends the run


@dataclass(slots=True)
class BadRecordLimit:
    """Checks each batch before it is committed."""

    on_bad: OnBad
    _lately: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES))

    def check(self, report: BatchReport) -> None:
        """Raise DecodeError when too many records are bad."""
        bad, all_ = report.bad_count, report.messages + report.messages_again
        # Batches without bad records count too: they make the share of the recent batches smaller.
        self._lately.append((bad, all_))
        if bad == 0:
            return
        recent_bad, recent = (sum(counts) for counts in zip(*self._lately, strict=True))
        if bad > self.on_bad.most:
            raise self._too_many(report, bad, all_, f"more than {self.on_bad.most} in one batch")
        # A burst in this batch, or a small share in each of many batches.
        for count, total in ((bad, all_), (recent_bad, recent)):
            if count > max(FEW, self.on_bad.share * total):
                raise self._too_many(report, count, total, f"more than {self.on_bad.share:.6g} of all")

    def _too_many(self, report: BatchReport, bad: int, all_: int, rule: str) -> DecodeError:
        first, place, table = report.first_bad
        return DecodeError(
            f"{bad} of {all_} records are bad, {rule}; nothing of the batch was committed",
            first=first.message,
            place=place,
            offset=first.position,
            table=table,
            record=repr(first.raw[:200]) if self.on_bad.shows_records else None,
            hint="correct value.format, or the producer;  --max-bad-records N  and  --max-bad-share 5% , in a file"
            " max-per-batch  and  max-share  of  errors: {dead-letter: ...}  or  {skip: ...} , allow more",
        )


DEFAULT_NAME = "__penstock_dead_letters"
LETTERS_DATABASE = "penstock"  # if the sink has no single database
COLUMNS = (
    ("pipeline", "STRING"),
    ("source_position", "STRING"),  # place@offset: topic/partition, file, binlog
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),  # null if the source does not number its messages
    ("record_time", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("raw_key", "BYTES"),
    ("raw_value", "BYTES"),
    ("headers", "MAP<STRING, BYTES>"),
    ("error_class", "STRING"),
    ("error", "STRING"),
    ("target_table", "STRING"),  # null if the record could not even be decoded
    ("received_at", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("attempt", "INT"),
)


def ensure(warehouse: CatalogSettings, table: str) -> TableSchema:
    """Return the schema of the dead-letter table, creating the table if necessary.

    Raise ConfigError when a table of this name exists with other columns.
    """
    try:
        schema = warehouse.store(table).schema()
    except TableMissing:
        # An append table without buckets, into which every write task may write.
        first = create_schema(list(COLUMNS), options={"bucket": "-1"}, now=warehouse.now_millis())
        schema = warehouse.created(table, first)
    _check_columns(schema, table)
    return schema


def check_columns(warehouse: CatalogSettings, table: str) -> None:
    """Raise ConfigError when a table of this name exists with other columns."""
    try:
        _check_columns(warehouse.store(table).schema(), table)
    except TableMissing:
        return


def _check_columns(schema: TableSchema, table: str) -> None:
    if [field.name for field in schema.fields] != [name for name, _ in COLUMNS] or schema.primary_keys:
        raise ConfigError(
            "the dead-letter table exists with other columns", table=table, hint="choose another table for dead letters"
        )


def rows(
    records: Sequence[BadRecord],
    *,
    pipeline: str,
    place: str,
    fetched: FetchedMessages | None,
    table: str | None,
    now_millis: int,
    schema: TableSchema,
) -> pa.RecordBatch:
    """Return one row per record, in the table's columns. There are few records, because their number is limited."""
    arrow = arrow_schema(schema.fields)
    made = [_row(record, pipeline, place, fetched, table, now_millis) for record in records]
    columns = [pa.array([row[name] for row in made], arrow.field(name).type) for name, _ in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def source_position(place: str, record: BadRecord) -> str:
    return f"{place}@{record.position}"


def kept(warehouse: CatalogSettings, on_bad: OnBad, place: str, records: Sequence[BadRecord]) -> set[str]:
    """Return the source positions of the records that are in the dead-letter table."""
    import pyarrow.compute as pc

    from penstock.table.handle import Table  # seldom needed, and expensive to import

    if on_bad.table is None:
        return set()
    positions = [source_position(place, record) for record in records]
    ours = pc.field("source_position").isin(positions) & (pc.field("pipeline") == on_bad.pipeline)
    found = Table(warehouse.opened(on_bad.table)).scan(columns=["source_position"], where=ours).to_arrow()
    return set(found.column(0).to_pylist())


def _row(
    record: BadRecord, pipeline: str, place: str, fetched: FetchedMessages | None, table: str | None, now_millis: int
) -> dict[str, object]:
    return {
        "pipeline": pipeline,
        "source_position": source_position(place, record),
        "offset": record.pos if record.id is None else None,
        "error_class": record.reason_class,
        "error": record.message,
        "target_table": table,
        "received_at": now_millis,
        "attempt": 0,
        **_origin(record, fetched),
    }


def _origin(record: BadRecord, fetched: FetchedMessages | None) -> dict[str, object]:
    if fetched is None:
        nothing = dict.fromkeys(("topic", "partition", "record_time", "raw_key", "headers"))
        return {**nothing, "raw_value": record.raw}
    messages = fetched.messages
    # Offsets of fetched messages rise, and the bad record is one of these messages.
    number = int(np.searchsorted(messages.offsets, record.pos))
    headers = None if fetched.headers is None else fetched.headers[number]
    return {
        "topic": fetched.topic,
        "partition": fetched.partition,
        "record_time": None if messages.timestamps is None else int(messages.timestamps[number]),
        "raw_key": None if messages.keys is None else messages.keys[number],
        "raw_value": messages.values[number],
        # Kafka allows several headers of one name, a map does not: the last one is kept.
        "headers": None if headers is None else list(dict(headers).items()),
    }
