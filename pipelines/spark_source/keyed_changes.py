"""UPDATE, DELETE and MERGE of Spark on a table with a key: each bucket is written by one task.

Spark sends the changes to tasks by a function of the catalog that repeats the bucket of a row. What a task writes
follows from the rows alone, and the commit finds buckets that two tasks have written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.maintenance.upkeep import after_commit
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Base
from penstock.table.meta.store import TableStore
from penstock.table.operations.delete import check_deletable
from penstock.table.operations.row_changes import RowChanges
from penstock.table.operations.write import TableWriter
from penstock.table.values.row_codec import is_wide_decimal
from penstock.table.values.types import AtomicType, DataType

# The types of keys whose buckets the function in Java computes. Timestamps depend on a precision that Spark loses.
_IN_JAVA = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "DECIMAL", "VARCHAR", "VARBINARY"})


def spread_by_bucket(store: TableStore) -> dict[str, object] | None:
    """Return the number of buckets and their key for Spark to send changes to tasks; None if one process writes them.

    Dynamic buckets are assigned by one process, and a full compaction is of buckets without changes too.
    """
    layout = Layout.of(store.schema())
    alone = layout.bucket_count == 1 and not layout.schema.partition_keys
    if layout.mode is not BucketMode.FIXED or not layout.has_keys or alone or layout.bucket_function != "default":
        return None
    if FullCompaction.of(store, layout).every is not None:
        return None
    if not all(_hashed_in_java(field.type) for field in layout.schema.select(layout.bucket_keys)):
        return None
    return {"buckets": layout.bucket_count, "keys": list(layout.bucket_keys)}


def _hashed_in_java(type_: DataType) -> bool:
    return isinstance(type_, AtomicType) and type_.root in _IN_JAVA and not is_wide_decimal(type_)


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """The changes of one statement. `base` is the snapshot that it read, `user` the commit user of all its tasks."""

    store: TableStore
    base: Base
    options: Mapping[str, str]
    statement: str
    user: str

    def take(self, batches: Iterable[pa.RecordBatch]) -> tuple[list[CommitMessage], ConfigError | None]:
        """Write the changes of a task; return its files, or why the statement is refused.

        A refusal is returned, because Spark would run a task again that raises it, and hide it in an error of its own.
        """
        with self._writer() as writer:
            try:
                self.write(writer, batches)
            except ConfigError as refused:
                return [], refused
            # Closing the writer must not delete the files of the messages any more.
            messages = writer.prepare()
            writer.forget()
            return messages, None

    def write(self, writer: TableWriter, batches: Iterable[pa.RecordBatch]) -> None:
        """Write changes in the order in which they come."""
        schema = self.store.schema()
        changes = RowChanges(schema, self.store.name, refuses_older=self.statement == "UPDATE", keys_may_differ=True)
        for batch in batches:
            changes.write(writer, batch)
            # Checked before the commit, so that a statement that is refused has changed nothing.
            if changes.counts[DELETE]:
                check_deletable(schema, self.store.name)

    def commit(self, messages: Sequence[CommitMessage], refused: Sequence[ConfigError], identifier: int | None) -> None:
        """Commit the files of all tasks in one snapshot, or delete them if a task has refused the statement."""
        written = Counter((message.partition, message.bucket) for message in messages)
        twice = [bucket for (_, bucket), tasks in written.items() if tasks > 1]
        if twice:
            refused = [*refused, self._written_twice(twice[0])]
        if refused:
            discard(self.store, messages)
            raise refused[0]
        with self._writer() as writer:
            writer.commit_messages(messages, identifier)

    def _written_twice(self, bucket: int) -> ConfigError:
        return ConfigError(
            "two tasks wrote the same bucket, whose rows would have no order",
            table=self.store.name,
            bucket=bucket,
            hint="run the statement again, unless another job changes the number of buckets; "
            "with  spark.sql.shuffle.partitions = 1  one task writes all of them",
        )

    def _writer(self) -> TableWriter:
        return TableWriter.open(self.store, self.user, self.options, after_commit(self.store), base=self.base)
