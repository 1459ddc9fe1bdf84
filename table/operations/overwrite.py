"""OVERWRITE: replacing the rows of some partitions with new rows, and dropping partitions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType

from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.buckets.layout import Layout
from penstock.table.commit.commit_checks import Contents, Covers, contents
from penstock.table.commit.committer import CommittedSnapshots, Committer
from penstock.table.dynamic_buckets.index_folder import IndexFolder
from penstock.table.errors import RowsUnread
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.snapshot import Base, Snapshot, base_snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.partition_specs import PartitionSpecs, spec_of
from penstock.table.operations.row_copies import unless_expired
from penstock.table.operations.write import AfterCommit, SnapshotFields, TableWriter
from penstock.table.options.partitions import DYNAMIC_PARTITION_OVERWRITE
from penstock.table.read.plan import hidden_entries, unseen_partitions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import mappings, optional_text

log = logging.getLogger(__name__)


class OverwriteWriter(TableWriter):
    """A writer whose commit replaces existing rows.

    It replaces the partitions that match `partition`, which may name only some of the partition columns. Without
    `partition`, `dynamic-partition-overwrite` replaces the partitions that rows were written to.

    An overwrite is a single commit, so leaving the `with` block commits, if rows were written and the block has neither
    committed nor prepared a commit for others to make.
    """

    def __init__(
        self,
        store: TableStore,
        schema: TableSchema,
        user: str,
        partition: Mapping[str, object] | None,
        after_commit: AfterCommit | None = None,
        base: Base = None,
    ) -> None:
        super().__init__(store, schema, user, after_commit, base=base)
        self._base = base
        self._spec = None if partition is None else PartitionSpecs.of(self.layout, [partition])
        dynamic = schema.typed[DYNAMIC_PARTITION_OVERWRITE]
        self._dynamic = dynamic and self._spec is None and bool(schema.partition_keys)
        self._prepared = False
        if base is not None and not self._dynamic:
            # Before rows are computed from the base. Which partitions a dynamic overwrite replaces is known at its end.
            self._check_shown(base_snapshot(base), self._covers(()))

    @classmethod
    def open_on(
        cls,
        store: TableStore,
        partition: Mapping[str, object] | None,
        user: str | None,
        options: Mapping[str, str] | None = None,
        after_commit: AfterCommit | None = None,
        base: Base = None,
    ) -> OverwriteWriter:
        if partition is not None:
            (partition,) = mappings([partition], "partitions")
        user = optional_text(user, "commit_user") or store.new_commit_user()
        return cls(store, cls.schema_with(store, options), user, partition, after_commit, base)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._buckets and not self._prepared:
            self.commit()
        super().__exit__(kind, error, trace)

    def prepare(self, identifier: int | None = None) -> list[CommitMessage]:
        # A compaction lost by an earlier overwrite is not repeated here: opening its bucket would overwrite it.
        self._owed = set()
        self._prepared = True
        return super().prepare(identifier)

    def _left_waiting(self) -> set[Bucket]:
        return set()  # a bucket opened here would be overwritten with no rows

    def _due_in_full(self, identifier: int | None) -> set[Bucket]:
        # Only written buckets: any other bucket opened here would be overwritten with nothing.
        return super()._due_in_full(identifier) & set(self._buckets)

    def _waits(self, identifier: int | None) -> bool:
        # The next commit may overwrite another partition, so no compaction can be left to it.
        return True

    def _rebase(self, newest: Snapshot | None) -> None:
        super()._rebase(newest)
        self._prepared, self._base = False, None

    def _known_state(self) -> TableState:
        # Keys are assigned buckets as if the table were empty, and the hash index is written again for all of them.
        # `_check_keys` refuses keys that exist in a partition that is kept.
        return TableState(self.store, None)

    def _check_keys(self, covers: Covers) -> None:
        """Raise RowRefused for a key that exists in a partition that is kept.

        It would exist twice, because an overwrite cannot delete it there.
        """
        if self._routes.placer is None or not (self._dynamic or (self._spec is not None and self._spec.choose_some)):
            return
        index = IndexFolder(self.store, self.layout).at(self._state.snapshot)
        for partition in self._routes.placer.found_in(index):
            if not covers(partition):
                raise RowRefused(
                    "a key of the written rows is in a partition that is not overwritten",
                    table=self.store.name,
                    partition=str(self.layout.partition_values(partition)),
                    hint="write the rows without overwrite, which moves the keys; or overwrite that partition too",
                )

    def _bucket_state(self, partition: bytes, bucket: int) -> BucketState:
        # The existing rows are replaced, so sequence numbers start again, and the number of buckets may change.
        snapshot = self._state.snapshot
        return BucketState(snapshot=snapshot.id if snapshot else 0)

    def _committed(
        self,
        committer: Committer,
        messages: Sequence[CommitMessage],
        fields: SnapshotFields,
        newest: Snapshot | None,
    ) -> CommittedSnapshots:
        covers = self._covers(messages)
        for message in messages:
            if not covers(message.partition):
                raise RowRefused(
                    "a row is outside of the partitions that are overwritten",
                    table=self.store.name,
                    partition=str(self.layout.partition_values(message.partition)),
                    hint="leave the row out, or name its partition too",
                )
        if self._dynamic and not messages:
            return CommittedSnapshots()
        if self._routes.placer is not None:
            self._check_keys(covers)
            newest = None  # the check reads the keys of the whole table, which takes its time
        seen = None if self._base is None else self._contents(base_snapshot(self._base), covers)
        return committer.overwrite(
            messages, covers, fields.identifier, properties=fields.properties, seen=seen, newest=newest
        )

    def _contents(self, base: Snapshot | None, covers: Covers) -> Contents:
        """Return what the partitions contained when the rows were read. RowsUnread if scans do not show all rows."""
        if base is None:
            return contents(self.store, base, covers)
        if self._dynamic:
            self._check_shown(base, covers)
        with unless_expired(self.store, base):
            return contents(self.store, base, covers)

    def refuse_unseen_partitions(self) -> None:
        """Raise RowsUnread if a partition has rows, and scans of the base show none of them.

        The query of a dynamic overwrite that changes all rows of its own table has no rows for them, so they would stay
        as they are. Partitions with some rows that are shown are checked at the end, when they are replaced.
        """
        base = None if self._base is None else base_snapshot(self._base)
        if base is None or not self._dynamic:
            return
        with unless_expired(self.store, base):
            unseen = unseen_partitions(self.store, self.layout, base)
        if unseen:
            self._check_shown(base, unseen.__contains__)

    def _check_shown(self, base: Snapshot | None, covers: Covers) -> None:
        """Raise RowsUnread if scans of the base do not show all rows of the partitions."""
        if base is None:
            return
        with unless_expired(self.store, base):
            waiting = hidden_entries(self.store, self.layout, base, covers)
            hidden = {entry.partition: entry.file.name for entry in waiting}
        if hidden:
            raise RowsUnread(
                "some rows are readable only after a compaction, and would be deleted unread",
                [spec_of(self.layout, found) for found in hidden],
                table=self.store.name,
                file=next(iter(hidden.values())),
            )

    def _covers(self, messages: Sequence[CommitMessage]) -> Covers:
        if self._dynamic:
            # A message without new rows only compacts, and its partition is not one that was written to.
            written = {message.partition for message in messages if message.new_files}
            return lambda partition: partition in written
        spec = self._spec
        return (lambda _: True) if spec is None else spec.covers


def drop_partitions(store: TableStore, partitions: Sequence[Mapping[str, object]]) -> list[Snapshot]:
    """Commit one OVERWRITE that deletes every partition that matches one of the specs.

    The snapshot is empty when none matches, as in Paimon. A spec that matches no partition is logged.
    """
    if not partitions or not all(mappings(partitions, "partitions")):
        raise RowRefused(
            "no partition is named", table=store.name, hint="pass at least one partition, with at least one column"
        )
    specs = PartitionSpecs.of(Layout.of(store.schema()), partitions)
    committer, used = Committer(store, store.new_commit_user()), set[int]()

    def covers(partition: bytes) -> bool:
        covering = specs.covering(partition)
        used.update(covering)
        return bool(covering)

    made = list(committer.overwrite((), covers).snapshots)
    for number, given in enumerate(partitions):
        if number not in used:
            text = ",".join(f"{name}={'NULL' if value is None else value}" for name, value in given.items())
            log.warning("event=no_such_partition table=%s partition=%s", store.name, text)
    return made
