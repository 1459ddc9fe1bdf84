"""Putting new rows in place of what stands in some partitions (table-format 12.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.buckets.layout import Layout
from penstock.table.commit.committer import Committed, Committer, Covers
from penstock.table.dynamic_buckets.key_index import IndexFolder
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.write import AfterCommit, TableWriter
from penstock.table.schema.options import Options
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import mappings
from penstock.table.values.partition_text import DEFAULT_NAME, partition_values


class OverwriteWriter(TableWriter):
    """A writer whose commit takes away what was there: in the partitions that `partition` names, even in part, or,
    where `dynamic-partition-overwrite` holds and none are named, in those that rows were written to.

    It is one commit by nature, so leaving the block makes it, if the block has written and neither committed nor
    prepared a commit for others to make.
    """

    def __init__(
        self,
        store: TableStore,
        schema: TableSchema,
        user: str,
        partition: Mapping[str, object] | None,
        after_commit: AfterCommit | None = None,
    ) -> None:
        super().__init__(store, schema, user, after_commit)
        self._spec = None if partition is None else PartitionSpec.of(self.layout, partition)
        dynamic = Options(schema.options).boolean("dynamic-partition-overwrite", default=True)
        self._dynamic = dynamic and self._spec is None and bool(schema.partition_keys)
        self._prepared = False

    @classmethod
    def open_on(
        cls,
        store: TableStore,
        partition: Mapping[str, object] | None,
        user: str | None,
        options: Mapping[str, str] | None = None,
        after_commit: AfterCommit | None = None,
    ) -> OverwriteWriter:
        return cls(store, cls.schema_with(store, options), user or store.new_commit_user(), partition, after_commit)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._buckets and not self._prepared:
            self.commit()
        super().__exit__(kind, error, trace)

    def prepare(self, identifier: int | None = None) -> list[CommitMessage]:
        # A compaction that an earlier overwrite lost is not made good here: opening its bucket would overwrite it.
        self._owed = set()
        self._prepared = True
        return super().prepare(identifier)

    def _due_in_full(self, identifier: int | None) -> set[Bucket]:
        # Only what was written: any other bucket that is opened here would be overwritten with nothing.
        return super()._due_in_full(identifier) & set(self._buckets)

    def _waits(self, identifier: int | None) -> bool:
        # The next commit may overwrite another partition, so nothing is left for it to compact.
        return True

    def _go_on(self, newest: Snapshot | None) -> None:
        super()._go_on(newest)
        self._prepared = False

    def _known_state(self) -> TableState:
        # Keys get their buckets as if the table were empty, and the hash index is written anew for all of them.
        # `_check_keys` refuses keys that lie in a partition that stays.
        return TableState(self.store, None)

    def _check_keys(self, covers: Covers) -> None:
        """A key that lies in a partition that stays would be there twice: its delete does not fit an overwrite."""
        if self._placer is None or not (self._dynamic or (self._spec is not None and self._spec.values)):
            return
        index = IndexFolder(self.store, self.layout).at(self._state.snapshot)
        for partition in self._placer.found_in(index):
            if not covers(partition):
                raise RowRefused(
                    "a key that is written lies in a partition that is not overwritten",
                    table=self.store.name,
                    partition=str(self.layout.partition_values(partition)),
                    hint="write the rows without overwrite, and they move; or overwrite that partition too",
                )

    def _bucket_state(self, partition: bytes, bucket: int) -> BucketState:
        # What is there goes away: numbering starts anew, and the number of buckets may change.
        snapshot = self._state.snapshot
        return BucketState(snapshot=snapshot.id if snapshot else 0)

    def _committed(
        self,
        committer: Committer,
        messages: Sequence[CommitMessage],
        number: int,
        watermark: int | None,
        properties: Mapping[str, str] | None,
    ) -> Committed:
        covers = self._covers(messages)
        for message in messages:
            if not covers(message.partition):
                raise RowRefused(
                    "a row lies outside of the partitions that are overwritten",
                    table=self.store.name,
                    partition=str(self.layout.partition_values(message.partition)),
                )
        if self._dynamic and not messages:
            return Committed()
        self._check_keys(covers)
        return committer.overwrite(messages, covers, number, properties=properties)

    def _covers(self, messages: Sequence[CommitMessage]) -> Covers:
        if self._dynamic:
            written = {message.partition for message in messages if message.new_files}
            return lambda partition: partition in written
        spec = self._spec
        return (lambda _: True) if spec is None else spec.covers


class PartitionSpec:
    """Some of the partition columns and the value each must have."""

    def __init__(self, layout: Layout, values: Mapping[str, object]) -> None:
        self._layout = layout
        self.values = values

    @classmethod
    def of(cls, layout: Layout, given: Mapping[str, object]) -> PartitionSpec:
        default = Options(layout.schema.options).text("partition.default-name", DEFAULT_NAME)
        return cls(layout, partition_values(given, layout.partition_fields, default))

    def covers(self, partition: bytes) -> bool:
        found = dict(zip(self._layout.schema.partition_keys, self._layout.partition_values(partition), strict=True))
        return all(found[name] == value for name, value in self.values.items())


def drop_partitions(store: TableStore, partitions: Sequence[Mapping[str, object]]) -> list[Snapshot]:
    """One OVERWRITE that takes away every partition that one of the specs names; an empty one when none does, as
    Paimon makes it.
    """
    if not partitions or not all(mappings(partitions, "partitions")):
        raise RowRefused("name at least one partition, by at least one column", table=store.name)
    specs = [PartitionSpec.of(Layout.of(store.schema()), partition) for partition in partitions]
    committer = Committer(store, store.new_commit_user())
    return list(committer.overwrite((), lambda found: any(spec.covers(found) for spec in specs)).snapshots)
