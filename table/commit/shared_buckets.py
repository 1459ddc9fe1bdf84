"""Commits of several write-only jobs to one bucket: rows that another job committed first stay older than ours.

A writer numbers its rows from the bucket's state when it began. If another job commits to the bucket before it, both
have used the same sequence numbers, and the winner of a key would be decided by chance. A write-only writer depends on
nothing else in the bucket, so its files are written again with greater numbers, as if it had begun after that commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import CommitConflict, ConfigError
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.committer import CommittedSnapshots
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.files.columns import SEQUENCE_NUMBER
from penstock.table.files.file_reader import FileReader
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Base, Snapshot, base_snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.compaction import WRITE_ONLY
from penstock.table.read.splits import invisible_level_0

log = logging.getLogger(__name__)

_TRIES = 10  # how often other jobs may commit to the buckets while this one writes its rows again
# The messages, and the newest snapshot if it has just been read.
Commit = Callable[[Sequence[CommitMessage], Snapshot | None], CommittedSnapshots]
Messages = tuple[CommitMessage, ...]
Names = tuple[str, ...]  # of the files of messages


@dataclass(slots=True)
class SharedBuckets:
    """The commits of one writer of a table, whose buckets other write-only jobs may write, too.

    With `base`, the rows were computed from those of that snapshot, or of an empty table, and a row that another job
    committed since would be overwritten by one that was computed without it. Nothing is renumbered then.

    Remembers renumbered messages while it is not known whether they were committed: the caller repeats the commit with
    the original messages, and their rows must not be committed twice.
    """

    store: TableStore
    layout: Layout
    base: Base = None
    _uncertain: dict[Names, Messages] = field(default_factory=dict)

    def current(self, messages: Sequence[CommitMessage]) -> Sequence[CommitMessage]:
        """Return the messages as an uncertain commit has renumbered them, or unchanged if there was none."""
        return self._uncertain.get(_names(messages), messages)

    def commit(self, messages: Sequence[CommitMessage], newest: Snapshot | None, commit: Commit) -> CommittedSnapshots:
        """Commit the messages, renumbered as often as other jobs commit rows to their buckets first.

        `newest` is the newest snapshot if the caller has just read it.

        ForeignWriter if the table is not write-only, or if the rows cannot be renumbered. The caller owns the files of
        `messages`, as without renumbering. After a commit, only the files in the table are left.
        """
        if self.base is not None:
            return self._commit_computed(base_snapshot(self.base), messages, newest, commit)
        current = messages
        for attempt in range(_TRIES + 1):
            try:
                done = commit(current, newest if attempt == 0 else None)
            except ForeignWriter as conflict:
                # The rows are read from the files of `current`, so these are deleted only afterwards.
                later = self._renumbered(current) if attempt < _TRIES else None
                self._forget(messages, current)
                if later is None:
                    raise
                log.info("event=rows_renumbered table=%s reason=%s", self.store.name, conflict.message)
                current = self._uncertain[_names(messages)] = later
            except (CommitConflict, ConfigError):
                self._forget(messages, current)
                raise
            else:
                if current is not messages:
                    del self._uncertain[_names(messages)]
                    if done.already is None:  # else the caller finds out whose files are in the table
                        self._discard_unlike(messages, current)
                return done
        raise AssertionError("the last attempt returns or raises")

    def _commit_computed(
        self, base: Snapshot | None, messages: Sequence[CommitMessage], newest: Snapshot | None, commit: Commit
    ) -> CommittedSnapshots:
        """Commit rows that were computed from those of `base`, if they are still the newest ones of their buckets."""
        if base is not None and invisible_level_0(self.layout):
            state = TableState(self.store, base)
            state.load({message.partition for message in messages})
            for message in messages:
                if any(file.level == 0 for file in state.bucket(message.partition, message.bucket).files):
                    raise CommitConflict(
                        "rows of a bucket are not read before they are compacted, and would be changed by mistake",
                        table=self.store.name,
                        bucket=message.bucket,
                        snapshot=base.id,
                        hint="run  penstock compact  on the table, and then the statement again",
                    )
        try:
            return commit(messages, newest)
        except ForeignWriter as conflict:
            hint = "run it again, or while no other job writes to these buckets"
            raise ForeignWriter(conflict.message, hint=hint, **conflict.facts) from conflict

    def _forget(self, messages: Sequence[CommitMessage], current: Sequence[CommitMessage]) -> None:
        """Delete renumbered files of an attempt that took no effect and never will."""
        if current is not messages:
            del self._uncertain[_names(messages)]
            self._discard_unlike(current, messages)

    def _discard_unlike(self, messages: Sequence[CommitMessage], others: Sequence[CommitMessage]) -> None:
        """Delete the files of messages, except files that the renumbered messages still use."""
        self._discard(
            [message for message, other in zip(messages, others, strict=True) if message.new_files != other.new_files]
        )

    def _discard(self, messages: Sequence[CommitMessage]) -> None:
        for message in messages:
            BucketFiles(self.store, self.layout, message.partition, message.bucket).delete(message)

    def _renumbered(self, messages: Sequence[CommitMessage]) -> Messages | None:
        """Return the messages with numbers above all of the newest snapshot; None if they cannot be renumbered.

        With dynamic buckets the other job may have assigned buckets to the same keys. A compaction has merged the rows
        with files that are not the newest any more.
        """
        latest = self.store.snapshots.latest()
        shared = self.layout.mode is BucketMode.FIXED and self.layout.schema.typed[WRITE_ONLY]
        if latest is None or not shared or any(message.has_compaction for message in messages):
            return None
        state = TableState(self.store, latest)
        if any(self._is_outdated(message, state, latest) for message in messages):
            return None
        done: list[CommitMessage] = []
        made: list[CommitMessage] = []
        try:
            for message in messages:
                shift = self._shift(message, state)
                done.append(self._renumber(message, shift) if shift > 0 else message)
                made += done[-1:] if shift > 0 else []
        except BaseException:
            self._discard(made)
            raise
        # As if the writer had begun on this snapshot.
        return tuple(replace(message, base_snapshot=latest.id, base_mark=latest.mark) for message in done)

    def _is_outdated(self, message: CommitMessage, state: TableState, latest: Snapshot) -> bool:
        """Return whether the table was rolled back since the message, or has another number of buckets."""
        total = state.bucket(message.partition, message.bucket).total_buckets
        return message.base_snapshot > latest.id or total not in (None, message.total_buckets)

    def _shift(self, message: CommitMessage, state: TableState) -> int:
        """Return by how much the numbers of a message are too small."""
        if not message.new_files or message.bucket < 0:
            return 0
        first = message.first_sequence
        if first is None:
            first = min(file.min_sequence for file in message.new_files)
        return state.bucket(message.partition, message.bucket).next_sequence - first

    def _renumber(self, message: CommitMessage, shift: int) -> CommitMessage:
        files = BucketFiles(self.store, self.layout, message.partition, message.bucket)
        return replace(
            message,
            new_files=self._rewritten(files, message.new_files, shift),
            changelog_files=self._rewritten(files, message.changelog_files, shift, changelog=True),
            first_sequence=None if message.first_sequence is None else message.first_sequence + shift,
        )

    def _rewritten(
        self, files: BucketFiles, old: Sequence[DataFile], shift: int, *, changelog: bool = False
    ) -> tuple[DataFile, ...]:
        """Write the rows of files again, each file by itself because only its own rows are sorted by key."""
        schema, store = self.layout.schema, self.store
        reader = FileReader(
            store.storage, files.path, store.schemas.get, schema.fields, with_sequence=True, with_kind=True
        )
        written: list[DataFile] = []
        for file in old:
            writer = files.open(changelog=changelog, level=file.level)
            try:
                for batch in reader.read(file):
                    # All numbers move by the same distance, so the order of the rows among themselves does not
                    # change.
                    numbers = pc.add(batch.column(SEQUENCE_NUMBER.name), pa.scalar(shift, pa.int64()))
                    place = batch.schema.get_field_index(SEQUENCE_NUMBER.name)
                    writer.write(batch.set_column(place, batch.schema.field(place), numbers))
                written += writer.finish()
            except BaseException:
                writer.abort()
                raise
        return tuple(written)


def _names(messages: Sequence[CommitMessage]) -> Names:
    return tuple(file.name for message in messages for file in message.new_files)
