"""The invariants after each step of a story, so that a fault which a later step heals is found as well.

What a snapshot names, counts and points to never changes. So the rules of metadata look at each snapshot once, and
afterwards only at whether its files are still there. All other invariants read every file and every snapshot again:
a tenth of the stories has them after each step, and the others at their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from penstock.errors import TableCorrupt
from penstock.table.handle import Table
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.entry_cache import EntryCache
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from tests.invariants import Broken, check_invariants, metadata
from tests.invariants.view import Reads, View
from tests.simulation.playing import PATH
from tests.simulation.store import Disk, SimClock, SimStore
from tests.stories.actor import ambient
from tests.stories.remembered_reads import RememberedReads
from tests.stories.shelf import Line
from tests.stories.timed import Lasting

Lines = dict[str | None, Line]
Named = list[tuple[str, int | None]]
Reached = tuple[str, TableStore, Snapshot]
# Rules of snapshots, not of their files.
RULES = (metadata.counts_add_up, metadata.schemas_exist, metadata.indexes_point_to_live_files)


def is_thorough(seed: int) -> bool:
    """Return whether a story has all invariants after each step: the first ten of each hundred seeds."""
    return seed // 10 % 10 == 0


@dataclass(frozen=True)
class Part(View):
    """A part of a branch: what a reader can reach of it is `reached`."""

    reached: tuple[Reached, ...] = ()

    def reachable(self) -> Iterator[Reached]:
        return iter(self.reached)


@dataclass
class StepChecks:
    """The checks of one story.

    The checks have separate caches and let no time pass, so that a story is the same with and without them.
    """

    disk: Disk
    thorough: bool
    lasting: Lasting
    _entries: EntryCache[ManifestEntry] = field(init=False)
    _reads: Reads = field(init=False)
    _named: dict[tuple[object, ...], Named] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget what was read: the table was created again."""
        self._entries, self._reads = EntryCache[ManifestEntry](), RememberedReads(self.disk, self.lasting)
        self._named.clear()

    def check(self, lines: Lines) -> None:
        """Raise an AssertionError if the table violates an invariant now."""
        self.lasting.begin()
        with standing(self.disk.clock):
            for branch, line in lines.items():
                opened = TableStore.open(SimStore(self.disk), PATH, branch, ambient(self.disk, "step checker"))
                store = replace(opened, cache=self._entries)
                if self.thorough:
                    check_invariants(Table(store), model=self.lasting.relations(line.visible), read_by=self._reads)
                    check_tags(store, line)
                else:
                    self._check_metadata(store, line)

    def _check_metadata(self, store: TableStore, line: Line) -> None:
        view, tags = View.of(store, self._reads), check_tags(store, line)
        reached = [(f"snapshot {snapshot.id}", store, snapshot) for snapshot in view.snapshots]
        reached += [(f"tag {name}", store, snapshot) for name, snapshot in tags.items()]
        known = self._named.keys()
        new = tuple(item for item in reached if key_of(item) not in known)
        wrong = [*metadata.ids_have_no_gap(view), *metadata.identifiers_count_once(view), *self._missing(view, reached)]
        if new and not wrong:
            ids = {snapshot.id for name, _, snapshot in new if name.startswith("snapshot")}
            first = next((place for place, made in enumerate(view.snapshots) if made.id in ids), len(view.snapshots))
            part = Part(store, view.snapshots[max(0, first - 1) :], self._reads, new)
            wrong = [text for rule in RULES for text in rule(part)]
        if wrong:
            raise Broken("\n".join([f"{store.name} is broken:", *wrong]))

    def _missing(self, view: View, reached: Iterable[Reached]) -> Iterator[str]:
        """Yield the violations of I2: snapshots that name a file which does not exist, or has another size."""
        for item in reached:
            if not self._is_whole(item):
                yield from metadata.named_files_exist(Part(view.store, (), self._reads, (item,)))

    def _is_whole(self, item: Reached) -> bool:
        files = self.disk.files
        try:
            named = self._files_of(item)
        except TableCorrupt:
            return False
        return all(path in files and size in {None, len(files[path][0])} for path, size in named)

    def _files_of(self, item: Reached) -> Named:
        key = key_of(item)
        if key not in self._named:
            name, store, snapshot = item
            found = list(metadata.state_files(store, snapshot))
            self._named[key] = found + ([] if name.startswith("tag") else list(metadata.change_files(store, snapshot)))
        return self._named[key]


def key_of(item: Reached) -> tuple[object, ...]:
    """Return a key for a snapshot: ids are assigned again, and names of files are not."""
    name, store, snapshot = item
    return name.startswith("tag"), store.paths.branch, snapshot.id, snapshot.delta_manifest_list


def check_tags(store: TableStore, line: Line) -> dict[str, Snapshot]:
    """Return the tags of a branch with their snapshots; AssertionError if it should have others."""
    found = {tag.name: tag.snapshot for tag in TagFiles(store.storage, store.paths.root, store.paths.branch).all()}
    assert found.keys() == line.tags.keys(), f"tags {sorted(found)}, should be {sorted(line.tags)}"
    return found


@contextmanager
def standing(clock: SimClock) -> Iterator[None]:
    """Let no time pass within this block."""
    now = clock.millis
    try:
        yield
    finally:
        clock.millis = now
