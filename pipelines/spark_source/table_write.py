"""A write to a table in two steps: tasks receive rows, one process commits.

Files of an append table without buckets are independent, so tasks write them and the commit only lists them.
Otherwise a bucket must have a single writer, which assigns sequence numbers. Tasks write the buckets of a statement
that changes rows, if Spark sends all changes of a bucket to one of them (`keyed_changes.py`). Other rows come to
tasks that a data source cannot choose: tasks check and stage them, and the committing process writes them in task
order. Its memory is limited to `write-buffer-size`, but it uses one core: bulk loads of keyed tables are faster
through a pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import CommitConflict, ConfigError
from penstock.pipelines.spark_source.change_numbers import ends_with_old_row, kinds_for
from penstock.pipelines.spark_source.file_changes import FileChanges
from penstock.pipelines.spark_source.keyed_changes import KeyedChanges
from penstock.pipelines.spark_source.replaced_rows import warn_of_replaced_rows, warn_of_unseen_partitions
from penstock.pipelines.spark_source.spark_options import OVERWRITE_MODE, OVERWRITE_PARTITION
from penstock.pipelines.spark_source.staged_rows import clear_staged, stage_rows, staged_rows
from penstock.pipelines.spark_source.table_place import TablePlace
from penstock.pipelines.spark_source.written_columns import as_written
from penstock.row_kinds import ROWKIND, UPDATE_BEFORE, kind_texts
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.seen_files import check_seen
from penstock.table.maintenance.upkeep import after_commit
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import history_expired
from penstock.table.meta.snapshot import Base
from penstock.table.meta.store import TableStore
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.write import TableWriter
from penstock.table.options.partitions import DYNAMIC_PARTITION_OVERWRITE
from penstock.table.options.table_options import TableOptions
from penstock.table.read.update_pairs import whole_updates
from penstock.table.schema.option_changes import refuse_other_rules
from penstock.table.sql.streams.stream_rules import needs_old_rows
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.partition_values import exact_value


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The result of a task, for the commit: messages for files of the table, or the path of staged rows.

    A task that changes rows without a key has both: files of new rows, and the places of the old ones. `refused` is why
    a task found that its statement must not be committed.
    """

    messages: tuple[CommitMessage, ...] = ()
    path: str | None = None
    refused: ConfigError | None = None


@dataclass(frozen=True, slots=True)
class TableWrite:
    place: TablePlace
    overwrite: bool
    # Set for an overwrite whose query may read the table: the newest snapshot when the query began, 0 for no snapshot.
    began: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], overwrite: bool) -> TableWrite:
        place = TablePlace.of(options)
        if place.system is not None:
            raise ConfigError(
                "a system table cannot be written",
                table=f"{place.path}${place.system}",
                hint="write to the table itself, without the part after $",
            )
        if not overwrite and place.options.get(OVERWRITE_PARTITION.key):
            raise ConfigError(
                "an append replaces no partition: the rows would be added to those of the partition",
                option=OVERWRITE_PARTITION.key,
                hint='use  mode("overwrite") , or remove the option',
            )
        return cls(place, overwrite)

    def at_begin(self) -> TableWrite:
        """Return the write of a query that begins now. RowsUnread if it would delete rows that it cannot read."""
        store = self.place.store()
        if not self.overwrite:
            return self
        if self.place.base_snapshot is not None:
            with self._writer(store) as writer:
                warn_of_unseen_partitions(writer)
                return self
        # The catalog knows the tables that a query reads. Of a path nobody does.
        return self if self.place.catalog is not None else replace(self, began=store.snapshots.latest_id() or 0)

    def take(self, batches: Iterable[pa.RecordBatch], job: str) -> TaskRows:
        """Prepare a task's rows; the driver commits them.

        A task that dies half way leaves invisible files, which `abort` or `remove_orphan_files` deletes.
        """
        store = self.place.store()
        rows = self._rows(store, batches)
        if self._changes_files(store):
            messages, path = self._file_changes(store).take(rows, job)
            return TaskRows(tuple(messages), path)
        if self.place.changes_by_bucket:
            messages, refused = self._keyed_changes(store, job).take(rows)
            return TaskRows(tuple(messages), refused=refused)
        if not _commits_files_of_tasks(store):
            return TaskRows(path=stage_rows(store, job, rows))
        with self._writer(store) as writer:
            for batch in rows:
                writer.write(batch)
            # The messages are pickled to the process that commits. Closing the writer must not delete their files
            # any more.
            messages = writer.prepare()
            writer.forget()
            return TaskRows(tuple(messages))

    def commit(self, parts: Sequence[TaskRows], job: str, user: str | None, identifier: int | None) -> None:
        """Commit all parts or none. An identifier that the user has committed before changes nothing."""
        store, paths = self.place.store(), _paths(parts)
        self._check(store, [message for part in parts for message in part.messages])
        if self._changes_files(store):
            self._file_changes(store).commit([message for part in parts for message in part.messages], paths, user)
            clear_staged(store, job, paths)
            return
        if self.place.changes_by_bucket:
            messages = [message for part in parts for message in part.messages]
            refused = [part.refused for part in parts if part.refused is not None]
            self._keyed_changes(store, user or job).commit(messages, refused, identifier)
            return
        with self._writer(store, user) as writer:
            if _commits_files_of_tasks(store):
                messages = [message for part in parts for message in part.messages]
                made = writer.commit_messages(messages, identifier, properties=self.place.commit_properties)
            else:
                batches = (batch for path in paths for batch in staged_rows(store, path))
                if self.place.row_changes:
                    self._keyed_changes(store, writer.user).write(writer, batches)
                else:
                    for batch in batches:
                        writer.write(*self._with_kinds(batch))
                made = writer.commit(identifier, properties=self.place.commit_properties)
        if self.began is not None and made:
            warn_of_replaced_rows(store, self.began, made[0])
        # After the commit: if the driver dies before this line, the staged rows remain, and no reader sees them.
        clear_staged(store, job, paths)

    def _check(self, store: TableStore, messages: Sequence[CommitMessage]) -> None:
        """Refuse what cannot be committed, and delete the files of the tasks: `abort` keeps those of commits."""
        try:
            check_seen(store, messages)
            self._base(store)
            refuse_other_rules(store.schema(), self.place.table_options)
        except (CommitConflict, ConfigError):
            discard(store, messages)
            raise

    def _changes_files(self, store: TableStore) -> bool:
        """Return whether a statement changes rows of a table without a key."""
        return bool(self.place.row_changes) and not store.schema().primary_keys

    def _file_changes(self, store: TableStore) -> FileChanges:
        planned = self.place.planned_snapshot
        return FileChanges(store, store.snapshots.get(planned) if planned else None, self.place.table_options)

    def _keyed_changes(self, store: TableStore, user: str) -> KeyedChanges:
        statement, base = self.place.row_changes or "", self._base(store)
        return KeyedChanges(store, base, self.place.table_options, statement, user)

    def _base(self, store: TableStore) -> Base:
        """Return the snapshot that the rows are computed from, if they are. HistoryExpired if it has expired."""
        base = self.place.base_snapshot
        if not base:
            return None if base is None else "empty"
        snapshot = store.snapshots.find(base)
        if snapshot is None:
            raise history_expired(store, base, store.snapshots.earliest_id() or base)
        return snapshot

    def abort(self, parts: Sequence[TaskRows | None], job: str) -> None:
        """Clean up after a task failed.

        If none did, the commit itself failed, and only the commit knows which files are in use.
        """
        if all(part is not None for part in parts):
            clear_staged(self.place.store(), job, _paths(parts))
        else:
            self.drop(parts, job)

    def drop(self, parts: Sequence[TaskRows | None], job: str) -> None:
        """Delete the rows of all tasks. None of them may be committed."""
        store = self.place.store()
        clear_staged(store, job, _paths(parts))
        discard(store, (message for part in parts if part is not None for message in part.messages))

    def _writer(self, store: TableStore, user: str | None = None) -> TableWriter:
        options = self.place.table_options
        refuse_other_rules(store.schema(), options)
        if not self.overwrite:
            return TableWriter.open(store, user, options, after_commit(store), base=self._base(store))
        text = TableOptions(self.place.options)[OVERWRITE_PARTITION]
        dynamic = TableOptions(self.place.options)[OVERWRITE_MODE] == "dynamic"
        # Spark's own mode takes precedence: a mode that is not set means static.
        dynamic = dynamic or TableOptions(self.place.options).given(DYNAMIC_PARTITION_OVERWRITE) is True
        partition = None if dynamic and text is None else _partition(text)
        return OverwriteWriter.open_on(
            store,
            partition,
            user,
            {**options, DYNAMIC_PARTITION_OVERWRITE.key: str(dynamic).lower()},
            after_commit(store),
            self._base(store),
        )

    def _rows(self, store: TableStore, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema, count = arrow_schema(store.schema().fields), self.place.only_first_columns
        for given in self._changes(store, batches) if self.place.stream_changes else batches:
            # Changes of rows have columns of their own.
            if self.place.row_changes:
                yield given
                continue
            own = given if count is None else given.select(range(count))
            batch = as_written(own, schema)
            if batch.num_rows:
                yield batch

    def _changes(self, store: TableStore, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query on changes with their kinds in place of their numbers."""
        definition = store.schema()
        wants_old = bool(definition.primary_keys) and needs_old_rows(definition)
        for batch in whole_updates(iter(batches), ends_with_old_row):
            rows, kinds = kinds_for(batch, definition.primary_keys)
            if not definition.primary_keys:
                yield rows
                continue
            texts = kind_texts(pa.array(kinds))
            whole = pa.RecordBatch.from_arrays([texts, *rows.columns], names=[ROWKIND, *rows.schema.names])
            yield whole if wants_old else whole.filter(pa.array(kinds != UPDATE_BEFORE))

    def _with_kinds(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        if not self.place.has_kinds:
            return batch, None
        if ROWKIND not in batch.schema.names:
            raise RowRefused(
                "the rows have no column with row kinds", hint=f"add the column {ROWKIND}, or remove the option"
            )
        return batch.drop_columns([ROWKIND]), pc.cast(batch.column(ROWKIND), pa.string())


def _paths(parts: Iterable[TaskRows | None]) -> list[str]:
    return [part.path for part in parts if part is not None and part.path is not None]


def _commits_files_of_tasks(store: TableStore) -> bool:
    return Layout.of(store.schema()).mode is BucketMode.UNAWARE


def _sent_value(value: object) -> object:
    """Return a partition value of a statement, as the catalog sends it."""
    if isinstance(value, dict):  # JSON has no bytes: each of them is sent as one character
        return str(value["bytes"]).encode("latin-1")
    return exact_value(value)


def _partition(text: str | None) -> dict[str, object]:
    """Parse `dt=2026-01-31,hour=7`, or a JSON object; nothing means every partition."""
    if text and text.startswith("{"):
        given = json.loads(text)
        return {name: _sent_value(member) for name, member in given.items()}
    pairs = [pair.partition("=") for pair in text.split(",")] if text else []
    if not all(sign for _, sign, _ in pairs):
        raise ConfigError(f"{text!r} is not a partition", option="overwrite-partition", hint="write dt=2026-01-31")
    found: dict[str, object] = {name.strip(): value.strip() for name, _, value in pairs}
    if len(found) < len(pairs):
        hint = (
            "one partition is overwritten; to replace those that are written to, use partitionOverwriteMode = dynamic"
        )
        raise ConfigError(f"the partition {text!r} contains a column twice", option="overwrite-partition", hint=hint)
    return found
