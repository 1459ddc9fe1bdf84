"""Jobs over streams on Spark: each step runs a query on the snapshots that were committed since the last one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException

from penstock.errors import ConfigError
from penstock.ingest.spark_admission import ReadAllAvailable
from penstock.pipelines.spark_source.change_numbers import kinds_for
from penstock.pipelines.spark_source.spark_options import (
    COMMIT_IDENTIFIER,
    COMMIT_PROPERTIES,
    COMMIT_USER,
    ROW_KIND,
    STREAM_CHANGES,
)
from penstock.pipelines.spark_source.stream_read import TableStreamReader
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.pipelines.spark_streams.stream_queries import Offset, StreamQuery
from penstock.row_kinds import kind_texts
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind
from penstock.table.sql.streams.job_progress import JobProgress
from penstock.table.sql.streams.stream_inserts import ATTEMPTS
from penstock.table.sql.streams.stream_jobs import KIND
from penstock.table.values.arrow_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONFLICT = re.compile(r"(?:^|: )penstock\.(?:\w+\.)+CommitConflict: ", re.MULTILINE)


class StreamSteps:
    """The steps of one SELECT: ranges of snapshots of its table."""

    def __init__(self, query: StreamQuery, position: int | None, *, until_caught_up: bool) -> None:
        """Begin after the snapshot `position`, or where the options of the query let a stream start."""
        self.query = query
        fields = arrow_schema(query.source.table.definition.fields)
        self._reader = TableStreamReader(query.read_options, spark_schema(fields))
        if until_caught_up:
            self._reader.prepareForTriggerAvailableNow()
        if position is None:
            self.offset: Offset = self._reader.initialOffset()
            return
        self.offset = {"state": 0, "first": position + 1, "next": position + 1}
        self._reader.commit(self.offset)

    @property
    def position(self) -> int | None:
        """Return the last snapshot that is processed; None if the rows of the first one are to be read yet."""
        return None if self.offset.get("begins") and self.offset["state"] else self.offset["next"] - 1

    @property
    def is_done(self) -> bool:
        """Return whether everything is processed that was there at the start. An endless stream is never done."""
        until, position = self._reader.until, self.position
        return until is not None and position is not None and position >= until

    def poll(self) -> Offset | None:
        """Return the end of the next range, or None if nothing was committed."""
        if self.is_done:
            return None
        limit = self._reader.getDefaultReadLimit()
        end = self._reader.latestOffset(self.offset, limit if self._reader.most_rows else ReadAllAvailable())
        return None if end == self.offset else end

    def rows(self, end: Offset) -> DataFrame:
        """Return the rows of the result up to there, with the numbers of their changes."""
        return self.query.rows(self.offset, end)

    def advance(self, end: Offset) -> None:
        """Continue after a range, which is processed."""
        self.offset = end
        self._reader.commit(end)


class SparkSelect:
    """One SELECT over a stream, whose rows are returned with their kinds."""

    def __init__(self, steps: StreamSteps, names: Sequence[str]) -> None:
        self.steps, self._names = steps, [KIND, *names]
        self.is_empty = True

    def step(self) -> Iterator[pa.Table]:
        """Yield the rows of the next range. Once they are handed out, a consumer's position is after it."""
        end = self.steps.poll()
        if end is None:
            return
        for batch in self.steps.rows(end).toArrow().combine_chunks().to_batches():
            rows, kinds = kinds_for(batch, ())
            self.is_empty = False
            yield pa.Table.from_arrays([kind_texts(pa.array(kinds)), *rows.columns], names=self._names)
        self.steps.advance(end)

    def no_rows(self) -> pa.Table:
        """Return the columns of the result without rows."""
        from pyspark.sql.pandas.types import to_arrow_schema

        *types, _ = to_arrow_schema(self.steps.rows(self.steps.offset).schema).types
        arrays = [pa.array([], type_) for type_ in (pa.string(), *types)]
        return pa.Table.from_arrays(arrays, names=self._names)


class SparkInsert:
    """The job that writes one SELECT over a stream into a table: one commit for each range."""

    def __init__(self, steps: StreamSteps, progress: JobProgress, table: Table, given: dict[str, str]) -> None:
        self.steps, self.progress, self._table, self._given = steps, progress, table, given
        self._first = 0 if table.latest_snapshot is None else table.latest_snapshot.id
        self._recorded = progress.last()
        self._pending: Offset | None = None
        if self._recorded is None:
            # A job that begins at the newest snapshot would begin elsewhere when it starts again.
            self._record()

    def step(self) -> Iterator[pa.Table]:
        """Process the next range. Yields no rows."""
        end = self.steps.poll()
        if end is None:
            return
        for attempt in range(1, ATTEMPTS + 1):
            self._check_alone()
            self._pending = end
            try:
                self._write(end)
                break
            except PySparkException as reason:
                # Another job wrote to the same buckets. The rows are read again, and written after its rows.
                if attempt == ATTEMPTS or not _CONFLICT.search(str(reason)):
                    raise
        self._pending = None
        self._reached(end)
        yield from ()

    def _check_alone(self) -> None:
        """Raise ConfigError if the job also runs elsewhere: its commits already contain the changes to read here."""
        last = self.progress.last()
        if last != self._recorded:
            raise ConfigError(
                f"the job {self.progress.user!r} runs elsewhere too: it has committed snapshot {last} of its source",
                table=self._table.name,
                hint="stop one of the two; started again it continues",
            )

    def _write(self, end: Offset) -> None:
        source = self.steps.query.source.table.store.snapshots.find(end["next"] - 1)
        options = {
            **self._given,
            **self.steps.query.session.table_options(self._table.name),
            "path": self._table.path,
            ROW_KIND.key: str(bool(self._table.primary_keys)).lower(),
            STREAM_CHANGES.key: "true",
            COMMIT_USER.key: self.progress.user,
            COMMIT_IDENTIFIER.key: str(end["next"] - 1),
            COMMIT_PROPERTIES.key: json.dumps(self.progress.properties(source)),
        }
        self.steps.rows(end).write.format("penstock").mode("append").options(**options).save()

    def _reached(self, end: Offset) -> None:
        position = end["next"] - 1
        if self.progress.commit_of(position) is not None:
            self._recorded = position
        self.steps.advance(end)

    def end(self) -> None:
        """Record the place that was reached, if the last snapshots had no rows for the target."""
        if self.steps.position != self._recorded:
            self._record()

    def settle(self) -> None:
        """Count a commit that was completed, although an interrupt came before it was reported."""
        if self._pending is not None and self.progress.commit_of(self._pending["next"] - 1) is not None:
            self._reached(self._pending)

    def result(self) -> dict[str, object]:
        """Return the result of the job as a row. The number of rows is counted in the files of its commits."""
        snapshots = self._table.refresh().store.snapshots
        rows, last = 0, None
        for number in range(self._first + 1, (snapshots.latest_id() or 0) + 1):
            found = snapshots.find(number)
            if found is not None and found.commit_user == self.progress.user:
                last = number
                rows += (found.delta_record_count or 0) if found.commit_kind is CommitKind.APPEND else 0
        last = self._first or None if last is None else last
        return {"job": self.progress.user, "read_to": self.steps.position, "written": rows, "snapshot": last}

    def _record(self) -> None:
        self._recorded = self.steps.position
        self.progress.record(self._recorded)


SparkJob: TypeAlias = SparkSelect | SparkInsert


def query_hash(text: str, options: object) -> str:
    """Return the hash of a statement, by which a job without a name is known."""
    return sha256(f"spark {text} {options}".encode()).hexdigest()[:16]
