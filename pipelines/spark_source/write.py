"""Writes under Spark, of a single query or of a stream's batches."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from penstock.errors import ConfigError
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.spark_source.plain_errors import plain_errors
from penstock.pipelines.spark_source.spark_api import DataSourceStreamArrowWriter
from penstock.pipelines.spark_source.spark_options import COMMIT_IDENTIFIER, COMMIT_USER
from penstock.pipelines.spark_source.table_write import TableWrite, TaskRows
from penstock.storage.open import open_storage
from penstock.table.commit.committer import Committer
from penstock.table.meta.store import TableMissing
from penstock.table.options.table_options import TableOptions

_CREATE = (
    "create it first: penstock.create_table(path, schema, primary_keys=[...]); or, in a catalog of penstock.register, "
    '.option("primary-key", "id").saveAsTable("lake.db.t")'
)
Messages = Sequence[WriterCommitMessage | None]


class WrittenMessages(WriterCommitMessage):
    def __init__(self, rows: TaskRows) -> None:
        self.rows = rows


class BatchWriter(DataSourceArrowWriter):
    """One commit per query. With `commit-user` and `commit-identifier` it may be repeated, as in foreachBatch."""

    def __init__(self, options: Mapping[str, str], overwrite: bool) -> None:
        with plain_errors():
            self.table = _opened(options, overwrite).at_begin()
            given = self.table.place.options
            own = TableOptions(given)
            self.user, self.identifier = own[COMMIT_USER], own[COMMIT_IDENTIFIER]
            if self.identifier is not None and self.user is None:
                raise ConfigError("a commit-identifier is only unique per commit user", hint="set commit-user too")
        # Chosen before Spark pickles this object to the tasks: they all stage their rows below this name, where the
        # commit clears them.
        self.job = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessages:
        with plain_errors():
            return WrittenMessages(self.table.take(iterator, self.job))

    def commit(self, messages: Messages) -> None:
        with plain_errors():
            self.table.commit(_done(messages), self.job, self.user, self.identifier)

    def abort(self, messages: Messages) -> None:
        with plain_errors():
            self.table.abort(_rows(messages), self.job)


class StreamWriter(DataSourceStreamArrowWriter):
    """One commit per batch, identified by the batch's number: a batch that Spark repeats counts once."""

    def __init__(self, options: Mapping[str, str], overwrite: bool) -> None:
        with plain_errors():
            self.table = _opened(options, overwrite)
            if TableOptions(self.table.place.options)[COMMIT_IDENTIFIER] is not None:
                raise ConfigError(
                    "the commits of a stream are numbered by its batches",
                    option=COMMIT_IDENTIFIER.key,
                    hint="remove the option; in  foreachBatch  you may choose the number",
                )
            self.user = self.table.place.options.get("commit-user") or user_of(self.table.place.options)
        self.job = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessages:
        with plain_errors():
            return WrittenMessages(self.table.take(iterator, self.job))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        with plain_errors():
            self._check_order(messages, batchId)
            self.table.commit(_done(messages), self.job, self.user, batchId)

    def _check_order(self, messages: Messages, number: int) -> None:
        """Raise CheckpointMismatch if the table has a later batch of the stream: Spark repeats only the last one.

        Otherwise the rows would be dropped, as if they were those of a batch that the table already has.
        """
        store = self.table.place.store()
        newest = Committer(store, self.user).newest_own()
        if newest is None or newest.commit_identifier <= number:
            return
        self.table.drop(_rows(messages), self.job)
        raise CheckpointMismatch(
            "the table has a later batch of this stream: its checkpoint is new or was restored, or another stream has"
            " the same commit user",
            table=store.name,
            commit_user=self.user,
            batch=number,
            newest_batch=newest.commit_identifier,
            hint='with a new checkpoint, set another commit-user: .option("commit-user", ...); batches that the table'
            " has are then written again",
        )

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        with plain_errors():
            self.table.abort(_rows(messages), self.job)


def _opened(options: Mapping[str, str], overwrite: bool) -> TableWrite:
    """Return the write of a table. TableMissing before rows are computed, with how tables are created."""
    table = TableWrite.of(options, overwrite)
    try:
        table.place.store()
    except TableMissing as missing:
        missing.hint = missing.hint or _CREATE
        raise
    return table


def user_of(options: Mapping[str, str]) -> str:
    """Return the commit user of a stream that names none: the id that Spark gave its checkpoint.

    A checkpoint that was deleted and recreated counts its batches from 0 again, under another id.
    """
    location = options.get("checkpointlocation")
    if not location:
        raise ConfigError(
            "a stream's commits are recognised by their commit user",
            option="commit-user",
            hint='.option("checkpointLocation", ...) on the stream itself; or a separate commit-user, and a '
            "different one with a new checkpoint",
        )
    storage, root = open_storage(location, options)
    # Spark writes the file when it creates the checkpoint, with an id that stays the same over restarts.
    identity = json.loads(storage.read(f"{root.rstrip('/')}/metadata"))["id"]
    return f"spark-{identity}"


def _rows(messages: Messages) -> list[TaskRows | None]:
    return [None if message is None else cast(WrittenMessages, message).rows for message in messages]


def _done(messages: Messages) -> list[TaskRows]:
    return [rows for rows in _rows(messages) if rows is not None]
