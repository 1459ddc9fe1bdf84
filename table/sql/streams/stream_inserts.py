"""INSERT INTO ... SELECT as a stream: each snapshot of the source becomes one commit of the target.

The commit's user is the name of the job, its identifier the id of the source's snapshot. So the target's own snapshots
say how far the source was read, and a job that starts again continues after that, exactly once.
"""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa

from penstock.errors import CommitConflict, ConfigError
from penstock.row_kinds import UPDATE_BEFORE, RowKinds
from penstock.table.handle import Table
from penstock.table.meta.snapshot import Snapshot
from penstock.table.operations.write import TableWriter
from penstock.table.read.change_stream import SnapshotBatches
from penstock.table.sql.dml.inserts import target_names, typed_columns
from penstock.table.sql.grammar.row_statements import Insert
from penstock.table.sql.grammar.scripts import ScriptPart
from penstock.table.sql.queries.context import SqlContext
from penstock.table.sql.streams.changelog_kinds import moved_kinds
from penstock.table.sql.streams.job_progress import PIPELINE_NAME, JobProgress, job_user
from penstock.table.sql.streams.stream_queries import stream_branches
from penstock.table.sql.streams.stream_reader import ChangedRows, StreamReader
from penstock.table.sql.streams.stream_rules import check_source, check_target, needs_old_rows
from penstock.table.sql.streams.stream_text import ROW, refused

ATTEMPTS = 5  # of a commit that another job's commit comes before


class StreamInsert:
    """The job that writes one SELECT over a stream into a table."""

    def __init__(self, reader: StreamReader, table: Table, statement: Insert, user: str, *, named: bool) -> None:
        self.reader, self.table, self.user, self._named = reader, table, user, named
        self._progress: JobProgress | None = None
        self._statement = statement
        self._query = ""
        self._needs_old_rows = bool(table.primary_keys) and needs_old_rows(table.definition)
        self._rows, self._snapshot = 0, None if table.latest_snapshot is None else table.latest_snapshot.id
        self._recorded: int | None = None
        self._recorded_in = 0  # the snapshot of the target by which `_recorded` is known
        self._base: int | None = None
        self._writer: TableWriter | None = None
        # The snapshot that is committed now, and the number of rows that are written with it.
        self._pending: tuple[Snapshot, int] | None = None

    def begin(self, context: SqlContext, given: list[str], *, until_caught_up: bool) -> None:
        """Check the job, find the place that the target has reached, and open the source after it."""
        columns = typed_columns(context, self.table, self._statement, given, self.reader.types)
        fixed = {name: text for name, text in self._statement.partition.items() if text is not None}
        targets = target_names(self.table, self._statement, given, fixed)
        check_source(self.reader.branch, self.reader.dimensions)
        check_target(self.reader.branch, self.table, {name: number for number, name in enumerate(targets)})
        aliases = ", ".join((ROW, *(f"c{number}" for number in range(len(given)))))
        self._query = f"SELECT {ROW}, {', '.join(columns.values())} FROM ({self.reader.branch.text}) AS q({aliases})"
        self._progress = JobProgress(self.reader.branch.source, self.table, self.user, self._query_hash, self._named)
        if (last := self._progress.last_commit()) is not None:
            self._recorded, self._recorded_in = last.commit_identifier, last.id
        self.reader.begin(self._recorded, until_caught_up=until_caught_up)
        if self._recorded is None:
            # A job that begins at the newest snapshot would begin elsewhere when it starts again.
            self._record()

    @property
    def progress(self) -> JobProgress:
        """Return the progress, which `begin` finds."""
        assert self._progress is not None
        return self._progress

    @property
    def is_done(self) -> bool:
        """Return whether the job has processed all that it should."""
        return self.reader.is_done

    def step(self) -> bool:
        """Process the next snapshot of the source; return whether there was one."""
        found = self.reader.poll()
        if found is None:
            return False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._process(found)
                break
            except CommitConflict:
                if attempt == ATTEMPTS:
                    raise
                # Another job wrote to the same buckets. The rows are read again, and written after its rows.
                self.close()
                found = self.reader.poll() or found
        self.reader.stream.advance(found.snapshot)
        self._pending = None
        return True

    def _process(self, batches: SnapshotBatches) -> None:
        writer, written = self._open_writer(), 0
        for rows in self.reader.rows(batches, self._query):
            batch, kinds = self._for_target(rows)
            writer.write(batch, kinds)
            written += batch.num_rows
        if not written:
            return
        identifier = batches.snapshot.id
        properties = {**self.progress.properties(batches.snapshot), **self.reader.lookups.properties}
        self._pending = batches.snapshot, self._rows + written
        snapshots = writer.commit(identifier, watermark=batches.snapshot.watermark, properties=properties)
        self._recorded, self._rows = identifier, self._rows + written
        if snapshots:
            self._snapshot, self._recorded_in = snapshots[0].id, snapshots[-1].id
        self._base = self.table.store.snapshots.latest_id()

    def _open_writer(self) -> TableWriter:
        # A writer knows the buckets as of its last commit. What others have committed since then, such as another job
        # of this process, it would find when it commits, after all its work.
        if self._writer is not None and self.table.store.snapshots.latest_id() != self._base:
            self.close()
        if self._writer is None:
            if self._base is not None:
                self._check_recorded()
            self._base = self.table.store.snapshots.latest_id()
            self._writer = self.table.writer(self.user, self._statement.options)
        return self._writer

    def _check_recorded(self) -> None:
        """Raise ConfigError if the target lacks the job's last commit: the job would go on without its rows."""
        if self._recorded is None or self.progress.commit_of(self._recorded) is not None:
            return
        earliest = self.table.store.snapshots.earliest_id()
        if earliest is None or earliest <= self._recorded_in:  # else the commit has expired
            raise ConfigError(
                "the table was rolled back, or dropped and created again, while the job wrote to it",
                table=self.table.name,
                job=self.user,
                lacks_source_snapshot=self._recorded,
                hint="start the job again: it continues at the place that the table records, and reads the rest again",
            )

    def _for_target(self, rows: ChangedRows) -> tuple[pa.RecordBatch, RowKinds]:
        if not self.table.primary_keys:
            return rows.batch, rows.kinds
        kinds = moved_kinds(rows.batch, rows.numbers, rows.kinds, self.table.primary_keys)
        kept = kinds != UPDATE_BEFORE
        if self._needs_old_rows or kept.all():
            return rows.batch, kinds
        return rows.batch.filter(pa.array(kept)), kinds[kept]

    def end(self) -> None:
        """Record the place that was reached, if the last snapshots had no rows for the target."""
        self.close()
        if self.reader.stream.position != self._recorded:
            self._record()

    def settle(self) -> None:
        """Count a commit that was completed, although an interrupt came before it was reported."""
        if self._pending is None:
            return
        (source, rows), self._pending = self._pending, None
        last = self.progress.commit_of(source.id)
        if last is None:
            return
        self._recorded, self._rows, self._snapshot = source.id, rows, last.id
        self._recorded_in = last.id
        if self.reader.stream.position != source.id:
            self.reader.stream.advance(source)

    def close(self) -> None:
        """Delete files that were written and not committed."""
        if self._writer is not None:
            self._writer.abort()
        self._writer = None

    def result(self) -> dict[str, object]:
        """Return what the job did, as a row."""
        position = self.reader.stream.position
        return {"job": self.user, "read_to": position, "written": self._rows, "snapshot": self._snapshot}

    def _record(self) -> None:
        """Commit the place in the source without rows."""
        self._recorded = self.reader.stream.position
        made = self.progress.record(self._recorded)
        self._recorded_in = self._recorded_in if made is None else made.id

    @property
    def _query_hash(self) -> str:
        dimensions = "".join(f" {join.view} {join.source.name}" for join in self.reader.branch.lookups)
        text = f"{self._query} {sorted(self._statement.options.items())}{dimensions}"
        return sha256(text.encode()).hexdigest()[:16]


def stream_inserts(
    context: SqlContext, part: ScriptPart, statement: Insert, *, until_caught_up: bool
) -> list[StreamInsert]:
    """Return the jobs of a streaming INSERT, one for each SELECT of its query, ready to run."""
    if statement.overwrite:
        hint = "INSERT INTO, or SET 'execution.runtime-mode' = 'batch'"
        raise refused(part.place, "INSERT OVERWRITE needs a query that ends", hint)
    table = context.table(statement.name)
    jobs: list[StreamInsert] = []
    columns: list[str] = []
    for branch in stream_branches(context.current, part, statement.query):
        reader = StreamReader(context.current, branch)
        columns = reader.columns_as(columns)
        job = StreamInsert(
            reader,
            table,
            statement,
            job_user(context.options, branch.source, table, [other.user for other in jobs]),
            named=PIPELINE_NAME in context.options,
        )
        job.begin(context, columns, until_caught_up=until_caught_up)
        jobs.append(job)
    return jobs
