"""Compares the miniature protocol with the real committer, step by step: both must refuse the same commits.

Files consist of metadata only, since a commit reads nothing else. Each file of the model is a file of the table. With
deletion vectors each has a separate level, because the committer also refuses files of one level that overlap.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.table.commit.committer import Committer
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.handle import Table
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import (
    DELETION_VECTORS,
    CommitMessage,
    FileKind,
    IndexEntry,
    ManifestEntry,
    VectorRange,
)
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.store import TableStore
from tests.golden.rows import arrow_changes
from tests.simulation import protocol
from tests.simulation.playing import PATH
from tests.simulation.protocol import Actor, File, Rules, State, vectors_of
from tests.simulation.scenes import ambient
from tests.simulation.store import Disk, SimStore
from tests.simulation.story import Story
from tests.simulation.tellers import create_ours

COLUMNS = [("k", "INT NOT NULL")]


@dataclass(frozen=True)
class Bound:
    """A state of the model, with a disk whose newest snapshots are the model's history."""

    state: State
    disk: Disk
    template: ManifestEntry

    @classmethod
    def of(cls, rules: Rules, *actors: Actor) -> Bound:
        options = {"bucket": "1", "write-only": "true"}
        if rules.deletion_vectors:
            options["deletion-vectors.enabled"] = "true"
        story, disk = Story(COLUMNS, ["k"], (), options), Disk()
        create_ours(story, SimStore(disk), PATH, ambient(disk, "creator"))
        template = _one_file(copy.deepcopy(disk))
        return cls(State((protocol.Snapshot(),), actors), disk, template)

    def steps(self, rules: Rules) -> Iterator[Bound]:
        """Yield the state after each look of an actor and after each commit.

        The check and the offer of a commit are not separated.
        """
        for place, actor in enumerate(self.state.actors):
            if actor.turns and actor.doing == "look":
                yield replace(self, state=protocol.look(self.state, place, actor, rules))
            elif actor.turns:
                yield self._committed(place, actor, rules)

    def _committed(self, place: int, actor: Actor, rules: Rules) -> Bound:
        after = protocol.check(self.state, place, actor, rules)
        refused = after.actors[place].doing != "offer"
        if not refused:
            after = protocol.offer(after, place, after.actors[place], rules)
        # Each state of the model has a separate disk, because one state is followed by several.
        disk = copy.deepcopy(self.disk)
        really = self._really_refused(_store(disk), place, actor)
        assert really == refused, f"{actor} is {'refused' if really else 'committed'}, the model says otherwise"
        bound = Bound(after, disk, self.template)
        bound.check_contents()
        return bound

    def _really_refused(self, store: TableStore, place: int, actor: Actor) -> bool:
        committer = Committer(store, f"actor {place}")
        try:
            return committer.commit([self._message(store, actor)]).lost_compaction is not None
        except ForeignWriter:
            return True

    def _message(self, store: TableStore, actor: Actor) -> CommitMessage:
        made, entry = actor.made, self.template
        assert made is not None
        message = CommitMessage(entry.partition, entry.bucket, entry.total_buckets, base_snapshot=actor.seen)
        if actor.role == "writer":
            return replace(message, new_files=(self._file(made),), first_sequence=made.sequence)
        seen = [item for item in _index(store, actor.seen) if item.index_type == DELETION_VECTORS]
        return replace(
            message,
            compact_before=tuple(self._file(file) for file in sorted(actor.inputs)),
            compact_after=(self._file(made),),
            compact_index_changes=tuple(self._index_changes(actor, made, seen)),
            vectors_read=tuple(item.name for item in seen),
        )

    def _index_changes(self, actor: Actor, made: File, seen: list[IndexEntry]) -> Iterator[IndexEntry]:
        gone = {file.name for file in actor.inputs}
        marked = (vectors_of(self.state.history[actor.seen], actor.bucket) | actor.hides) - gone
        place = (self.template.partition, self.template.bucket, DELETION_VECTORS)
        if marked:
            ranges = tuple(VectorRange(_name(number), 0, 1, 1) for number in sorted(marked))
            yield IndexEntry(FileKind.ADD, *place, f"vectors-of-{made.name}", 1, len(ranges), ranges)
        else:
            yield from (replace(item, kind=FileKind.DELETE) for item in seen)

    def _file(self, file: File) -> DataFile:
        level = 0 if file.level == 0 else file.name + 1
        number = file.sequence
        return replace(self.template.file, name=_name(file.name), level=level, min_sequence=number, max_sequence=number)

    def check_contents(self) -> None:
        store, model = _store(self.disk), self.state.history[-1]
        latest = store.snapshots.latest()
        assert (latest.id if latest else 0) == len(self.state.history) - 1
        if latest is None:
            return
        assert {entry.file.name for entry in live_entries(store, latest)} == {_name(file.name) for file in model.files}
        ranges = (item for entry in _index(store, latest.id) for item in entry.vector_ranges or ())
        assert {item.data_file for item in ranges} == {_name(number) for number in model.deleted}


def explore_bound(rules: Rules, *actors: Actor) -> int:
    """Walk through every order of looks and commits. Return the number of states visited."""
    first = Bound.of(rules, *actors)
    waiting, known = [first], {first.state}
    while waiting:
        for after in waiting.pop().steps(rules):
            if after.state not in known:
                known.add(after.state)
                waiting.append(after)
    return len(known)


def _store(disk: Disk) -> TableStore:
    return TableStore.open(SimStore(disk), PATH, None, ambient(disk, f"{len(disk.files)}"))


def _index(store: TableStore, number: int) -> list[IndexEntry]:
    snapshot = store.snapshots.find(number)
    return index_entries(store, snapshot) if snapshot else []


def _name(number: int) -> str:
    return f"data-{number}.parquet"


def _one_file(disk: Disk) -> ManifestEntry:
    table = Table(_store(disk))
    with table.writer(commit_user="template") as writer:
        writer.write(*arrow_changes([["+I", 1]], COLUMNS))
        writer.commit()
    [entry] = live_entries(table.store, table.snapshots[-1])
    return entry
