"""Jobs over streams that run together in one process: INSERT jobs and the SELECT whose rows are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Event
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.row_kinds import kind_texts
from penstock.table.options.kinds import parse_duration
from penstock.table.sql.grammar.scripts import ScriptPart
from penstock.table.sql.grammar.statements import SqlQuery
from penstock.table.sql.queries.context import SqlContext
from penstock.table.sql.streams.stream_inserts import StreamInsert
from penstock.table.sql.streams.stream_lookups import StreamStopped
from penstock.table.sql.streams.stream_queries import stream_branches
from penstock.table.sql.streams.stream_reader import StreamReader
from penstock.table.sql.streams.stream_rules import check_source

INTERVAL = "execution.checkpointing.interval"
KIND = "op"  # the name that Flink's clients have for the column of row kinds
_RESULT = pa.schema([("job", pa.string()), ("read_to", pa.int64()), ("written", pa.int64()), ("snapshot", pa.int64())])


def check_job_option(key: str, value: str) -> None:
    """Raise ConfigError for an option of jobs that no job could have."""
    if key == INTERVAL:
        parse_duration(value)
    elif not value.strip():
        raise ConfigError(f"{key} cannot be empty", hint=f"SET '{key}' = 'orders', or RESET '{key}'")


class ShownStream:
    """One SELECT over a stream, whose rows are returned with their kinds."""

    def __init__(self, reader: StreamReader, names: Sequence[str]) -> None:
        self.reader = reader
        self.is_empty = True
        self._names = [KIND, *names]

    @property
    def is_done(self) -> bool:
        """Return whether all rows are returned that were there at the start."""
        return self.reader.is_done

    def step(self) -> Iterator[pa.Table]:
        """Yield the rows of the next snapshot. Once they are all handed out, a consumer's position is after it."""
        found = self.reader.poll()
        if found is None:
            return
        for rows in self.reader.rows(found, self.reader.branch.text):
            columns = [kind_texts(pa.array(rows.kinds)), *rows.batch.columns]
            self.is_empty = False
            yield pa.Table.from_arrays(columns, names=self._names)
        self.reader.stream.advance(found.snapshot)

    def no_rows(self) -> pa.Table:
        """Return the columns of the result without rows."""
        return pa.Table.from_arrays([pa.array([], pa.string()), *self.reader.no_rows()], names=self._names)


def stream_selects(
    context: SqlContext, part: ScriptPart, query: SqlQuery, *, until_caught_up: bool
) -> list[ShownStream]:
    """Return the SELECTs of a streaming query, ready to run."""
    jobs: list[ShownStream] = []
    names: list[str] = []
    for branch in stream_branches(context.current, part, query.text):
        reader = StreamReader(context.current, branch)
        names = reader.columns_as(names)
        check_source(branch, reader.dimensions)
        reader.begin(None, until_caught_up=until_caught_up)
        jobs.append(ShownStream(reader, names))
    return jobs


def _step(part: ScriptPart, job: StreamJob) -> Iterator[pa.Table]:
    job.reader.session.begin(part)
    try:
        if isinstance(job, StreamInsert):
            job.step()
        else:
            yield from job.step()
    except PenstockError as error:
        part.locate(error)
        raise


StreamJob: TypeAlias = StreamInsert | ShownStream


class StreamJobs:
    """The jobs of a script, which run until they have caught up, or until they are stopped."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self.are_running = False
        # The SELECT that the rows handed out last belong to, if they are those of a stream.
        self.shown: ScriptPart | None = None
        self._jobs: list[tuple[ScriptPart, StreamJob]] = []

    def add(self, part: ScriptPart, jobs: Sequence[StreamJob]) -> None:
        """Add jobs of a statement."""
        for job in jobs:
            job.reader.stop = self._stop
        self._jobs += [(part, job) for job in jobs]

    def run(self, context: SqlContext) -> Iterator[pa.Table]:
        """Run the jobs, and yield the rows of queries, at last a row for each INSERT."""
        jobs, self._jobs = self._jobs, []
        self.are_running = bool(jobs)
        seconds = parse_duration(context.options.get(INTERVAL, "1 s")) / 1000
        inserts = [job for _, job in jobs if isinstance(job, StreamInsert)]
        try:
            while not (self._stop.is_set() or all(job.is_done for _, job in jobs)):
                advanced = False
                for part, job in jobs:
                    before, self.shown = job.reader.stream.position, part
                    yield from _step(part, job)
                    advanced |= job.reader.stream.position != before
                if not advanced:
                    self._stop.wait(seconds)
            for job in inserts:
                job.end()
        except (KeyboardInterrupt, StreamStopped):
            # The way to end a stream: what is not committed is deleted below.
            for job in inserts:
                job.settle()
        finally:
            for job in inserts:
                job.close()
        self.are_running = False
        for self.shown in dict.fromkeys(part for part, _ in jobs):
            selects = ((part, job) for part, job in jobs if part is self.shown and isinstance(job, ShownStream))
            yield from without_rows(selects)
        self.shown = None
        if inserts:
            yield pa.Table.from_pylist([job.result() for job in inserts], _RESULT)


class Shown(Protocol):
    """A SELECT over a stream, in the process or on Spark."""

    is_empty: bool

    def no_rows(self) -> pa.Table:
        """Return the columns of the result without rows."""


def without_rows(selects: Iterable[tuple[ScriptPart, Shown]]) -> Iterator[pa.Table]:
    """Yield the columns of each query that has returned no rows. A UNION ALL has several streams."""
    queries: dict[int, list[Shown]] = {}
    for part, select in selects:
        queries.setdefault(id(part), []).append(select)
    for streams in queries.values():
        if all(stream.is_empty for stream in streams):
            yield streams[0].no_rows()
