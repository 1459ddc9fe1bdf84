"""A fast-forward at each of its changes: readers find main as it was or the branch, and a second call completes it."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.handle import Table
from penstock.table.maintenance.branches import create_branch, fast_forward
from penstock.table.maintenance.file_deletion import with_folders
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tags import create_tag, tag_files
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import OwnProcess
from penstock.table.read.follow import check_follows, next_snapshot
from penstock.table.schema.changes import evolve
from penstock.table.values.types import parse_type
from tests.invariants import check_invariants
from tests.orphans import remove_orphans
from tests.simulation.store import Disk, Operation, SimStore
from tests.simulation.verbs import PATH, ambient, prepared, rows, rows_of

Rows = list[tuple[object, ...]]
Scene = Callable[[TableStore, TableStore], None]


def commit(store: TableStore, name: str, count: int) -> None:
    for number in range(count):
        with Table(store).writer(f"{name} {number}") as writer:
            writer.write(rows((name, number, name)))
            writer.commit(number)


def only_last(store: TableStore, count: int = 1) -> None:
    older_than = store.ambient.now_millis() + 1
    expire_snapshots(store, retain_max=count, retain_min=count, older_than=older_than, protect_users=0)


def add_column(store: TableStore, name: str) -> None:
    evolve(store.schemas, [penstock.AddColumn(name, parse_type("INT"))], True, store.ambient.now_millis())


def branch_grows(main: TableStore, branch: TableStore) -> None:
    commit(branch, "theirs", 3)


def main_grows(main: TableStore, branch: TableStore) -> None:
    commit(main, "ours", 3)
    commit(branch, "theirs", 1)
    create_tag(main, "after", main.snapshots.latest_id() or 0)


def both_grow_alike(main: TableStore, branch: TableStore) -> None:
    commit(main, "ours", 1)
    commit(branch, "theirs", 2)


def both_are_compacted(main: TableStore, branch: TableStore) -> None:
    """Each takes away files that the other one has."""
    commit(branch, "theirs", 1)
    Table(branch).compact(full=True)
    commit(main, "ours", 3)
    Table(main).compact(full=True)


def branch_expires(main: TableStore, branch: TableStore) -> None:
    commit(branch, "theirs", 4)
    only_last(branch)


def branch_expires_next_to_main(main: TableStore, branch: TableStore) -> None:
    commit(branch, "theirs", 2)
    only_last(branch)


def branch_expires_within_main(main: TableStore, branch: TableStore) -> None:
    commit(main, "ours", 3)
    commit(branch, "theirs", 5)
    only_last(branch, 3)


def branch_expires_right_behind_main(main: TableStore, branch: TableStore) -> None:
    commit(main, "ours", 1)
    commit(branch, "theirs", 4)
    only_last(branch, 3)


def branch_with_a_column_expires_behind_main(main: TableStore, branch: TableStore) -> None:
    both_have_a_column(main, branch)
    commit(branch, "theirs again", 3)
    only_last(branch, 3)


def branch_with_a_column_expires_close_behind_main(main: TableStore, branch: TableStore) -> None:
    """The branch begins with the id after main's newest, so that main has to have a gap before it."""
    both_have_a_column(main, branch)
    commit(branch, "theirs again", 3)
    only_last(branch, 2)
    commit(main, "ours again", 2)


def branch_has_changelogs_behind_main(main: TableStore, branch: TableStore) -> None:
    """Of the branch's snapshots that have expired, streams may read the changelogs."""
    keep = [penstock.SetOption(f"changelog.num-retained.{bound}", "20") for bound in ("min", "max")]
    evolve(branch.schemas, keep, True, branch.ambient.now_millis())
    branch_expires_within_main(main, branch)


def branch_with_a_column_has_changelogs_behind_main(main: TableStore, branch: TableStore) -> None:
    main_has_a_column(main, branch)
    branch_has_changelogs_behind_main(main, branch)
    commit(branch, "theirs once more", 2)
    only_last(branch, 2)


def main_expires(main: TableStore, branch: TableStore) -> None:
    commit(branch, "theirs", 2)
    commit(main, "ours", 2)
    only_last(main)


def branch_has_a_column(main: TableStore, branch: TableStore) -> None:
    add_column(branch, "theirs")
    commit(branch, "theirs", 2)


def main_has_a_column(main: TableStore, branch: TableStore) -> None:
    add_column(main, "ours")
    commit(main, "ours", 2)
    commit(branch, "theirs", 2)


def both_have_a_column(main: TableStore, branch: TableStore) -> None:
    main_has_a_column(main, branch)
    add_column(branch, "theirs")
    commit(branch, "theirs too", 1)


SCENES: Mapping[str, Scene] = {
    scene.__name__: scene
    for scene in (
        branch_grows,
        main_grows,
        both_grow_alike,
        both_are_compacted,
        branch_expires,
        branch_expires_next_to_main,
        branch_expires_within_main,
        branch_expires_right_behind_main,
        main_expires,
        branch_has_a_column,
        main_has_a_column,
        both_have_a_column,
        branch_with_a_column_expires_behind_main,
        branch_with_a_column_expires_close_behind_main,
        branch_has_changelogs_behind_main,
        branch_with_a_column_has_changelogs_behind_main,
    )
}
# A schema of each under one number: no order of changes lets the rows of both be read.
UNREADABLE = {"both_have_a_column", *(name for name in SCENES if "with_a_column" in name)}
# The branch begins after main's last snapshot, or main begins later than the branch: ids have a gap for a while.
APART = {name for name in SCENES if "expire" in name or "changelogs" in name}


def opened(store: SimStore, name: str = "look", branch: str | None = None) -> TableStore:
    return TableStore.open(store, PATH, branch, ambient(store.disk, name))


def found(store: TableStore) -> Rows:
    """Return the rows of a plain read, without columns that only one of the two histories has."""
    return rows_of(Table(store).scan(columns=["p", "k", "v"]).to_arrow())


def history(store: TableStore) -> list[Rows]:
    """Return the rows of each snapshot."""
    table, columns = Table(store), ["p", "k", "v"]
    return [rows_of(table.scan(columns=columns, snapshot=number).to_arrow()) for number in store.snapshots.ids()]


def copy(disk: Disk) -> Disk:
    made = Disk(files=dict(disk.files), folders=set(disk.folders))
    made.clock.millis = disk.clock.millis
    return made


@functools.cache
def scene(name: str) -> Disk:
    disk = copy(prepared("append"))
    main = opened(SimStore(disk), "begin")
    create_tag(main, "here", main.snapshots.latest_id() or 0)
    create_branch(main, "dev", "here")
    SCENES[name](main, opened(SimStore(disk), "begin dev", "dev"))
    return disk


def told(disk: Disk) -> object:
    store = opened(SimStore(disk))
    table = Table(store)
    check_invariants(table)
    tags = {name: rows_of(table.scan(tag=name).to_arrow()) for name in sorted(table.tags)}
    snapshots = {number: rows_of(table.scan(snapshot=number).to_arrow()) for number in store.snapshots.ids()}
    return tags, snapshots, store.schema().names, store.snapshots.earliest_id(), rows_of(table.scan().to_arrow())


def changes(operation: Operation) -> bool:
    return operation.name not in {"read", "read_range", "size", "list"}


class Stopped(Exception):
    pass


@pytest.mark.parametrize("name", [name for name in SCENES if name not in UNREADABLE])
def test_readers_find_one_of_the_two_histories_and_never_return(name: str) -> None:
    disk = copy(scene(name))
    main, branch = opened(SimStore(disk)), opened(SimStore(disk), branch="dev")
    old, new = history(main), history(branch)
    seen = list[Rows]()

    def look(operation: Operation) -> None:
        if changes(operation):
            seen.append(found(opened(SimStore(disk))))

    fast_forward(opened(SimStore(disk, turn=look)), "dev")
    seen.append(found(opened(SimStore(disk))))
    switch = next(number for number, snapshot in enumerate(seen) if snapshot not in old)
    assert all(snapshot in new for snapshot in seen[switch:])
    assert seen[-1] == new[-1] != old[-1]


@pytest.mark.parametrize("name", SCENES)
def test_a_second_call_completes_one_that_was_interrupted(name: str) -> None:
    disk, log = copy(scene(name)), list[Operation]()
    fast_forward(opened(SimStore(disk, log=log)), "dev")
    wanted = told(disk)
    for stop in (number for number, operation in enumerate(log, 1) if changes(operation)):
        disk, count = copy(scene(name)), 0

        def turn(_: Operation, stop: int = stop) -> None:
            nonlocal count
            count += 1
            if count >= stop:
                raise Stopped

        with pytest.raises(Stopped):
            fast_forward(opened(SimStore(disk, turn=turn)), "dev")
        # A snapshot of main may follow one of the branch, whose rows it does not count.
        check_invariants(Table(opened(SimStore(disk))), excused={"I10", *({"I1"} if name in APART else ())})
        sides = [*history(opened(SimStore(scene(name)))), *history(opened(SimStore(disk), branch="dev"))]
        assert name in UNREADABLE or found(opened(SimStore(disk))) in sides
        fast_forward(opened(SimStore(disk)), "dev")
        assert told(disk) == wanted, f"stopped at {stop} of {len(log)}: {log[stop - 1]}"


class Stream:
    """A stream that has read main up to a snapshot. The position of its consumer is stored with each snapshot."""

    def __init__(self, last: Snapshot) -> None:
        self.read = [last]
        self.error: PenstockError | None = None

    def poll(self, store: TableStore) -> None:
        try:
            while self.error is None:
                snapshot = next_snapshot(store, self.read[-1].id + 1)
                check_follows(store, self.read[-1], store.schemas.created_millis())
                if snapshot is None:
                    return
                self.read.append(snapshot)
                consumers(store).put("c", snapshot.id + 1)
        except PenstockError as error:
            self.error = error

    def read_by_consumer(self, store: TableStore) -> list[Snapshot]:
        """Return what was read and will not be read again by a stream that begins at the position of the consumer."""
        following = consumers(store).next_snapshot("c")
        return [snapshot for snapshot in self.read[1:] if following is not None and snapshot.id < following]


def consumers(store: TableStore) -> ConsumerFiles:
    return ConsumerFiles(store.storage, store.paths.root, store.paths.branch)


def snapshots_of(store: TableStore) -> list[Snapshot]:
    return [store.snapshots.get(number) for number in store.snapshots.ids()]


@pytest.mark.parametrize("name", SCENES)
def test_no_stream_reads_the_branch_after_replaced_snapshots(name: str) -> None:
    """A stream that had read main up to a snapshot ends with an error, or reads the whole history of the branch."""
    disk, log = copy(scene(name)), list[Operation]()
    old, begin = snapshots_of(opened(SimStore(disk))), tag_files(opened(SimStore(disk))).get("here").snapshot
    fast_forward(opened(SimStore(disk, log=log)), "dev")
    new = snapshots_of(opened(SimStore(disk)))
    for at in (number for number, operation in enumerate(log) if changes(operation)):
        disk, streams = copy(scene(name)), [Stream(snapshot) for snapshot in old]
        fast_forward(
            opened(SimStore(disk, turn=once(at, lambda disk=disk, streams=streams: polled(disk, streams)))), "dev"
        )
        polled(disk, streams)
        for stream in streams:
            # One that has read a snapshot of main alone may read nothing of the branch.
            is_shared = stream.read[0] in new or stream.read[0] == begin
            since = max(new[0].id, stream.read[0].id)
            wanted = [snapshot for snapshot in new if snapshot.id >= since] if is_shared else []
            read = [snapshot for snapshot in stream.read if snapshot.id >= since] if is_shared else stream.read[1:]
            assert stream.error is not None or read == wanted, (
                f"{log[at]}: read {[snapshot.id for snapshot in stream.read]}"
            )


@pytest.mark.parametrize("name", SCENES)
def test_no_stream_reads_the_branch_after_a_call_that_was_repeated(name: str) -> None:
    """The call that is repeated knows where main ended, although the first one has deleted snapshots there."""
    disk, log = copy(scene(name)), list[Operation]()
    old, begin = snapshots_of(opened(SimStore(disk))), tag_files(opened(SimStore(disk))).get("here").snapshot
    fast_forward(opened(SimStore(disk, log=log)), "dev")
    new = snapshots_of(opened(SimStore(disk)))
    ours = [snapshot for snapshot in old if snapshot not in new and snapshot.id > begin.id]
    for stop in (number for number, operation in enumerate(log) if changes(operation)):
        disk, streams = copy(scene(name)), [Stream(snapshot) for snapshot in ours]
        with contextlib.suppress(Stopped):
            fast_forward(opened(SimStore(disk, turn=once(stop, halt))), "dev")
        fast_forward(opened(SimStore(disk)), "dev")
        polled(disk, streams)
        for stream in streams:
            assert stream.read[1:] == [], f"{log[stop]}: read {[snapshot.id for snapshot in stream.read]}"


@pytest.mark.parametrize("name", SCENES)
def test_no_snapshot_is_replaced_while_the_begin_of_main_cannot_be_stored(name: str) -> None:
    """As on a full disk. The call that is repeated would not know where main ended."""
    disk = copy(scene(name))

    def full(operation: Operation) -> None:
        if operation.name.startswith("write") and "EARLIEST" in operation.path:
            raise OSError(28, "No space left on device")

    before = snapshots_of(opened(SimStore(disk)))
    with pytest.raises(OSError, match="No space"):
        fast_forward(opened(SimStore(disk, turn=full)), "dev")
    assert snapshots_of(opened(SimStore(disk))) == before


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("stops", [False, True])
def test_a_consumer_gets_the_history_of_the_branch(name: str, stops: bool) -> None:
    disk, log = copy(scene(name)), list[Operation]()
    begin = tag_files(opened(SimStore(disk))).get("here").snapshot
    fast_forward(opened(SimStore(disk, log=log)), "dev")
    new = snapshots_of(opened(SimStore(disk)))
    for at in (number for number, operation in enumerate(log) if changes(operation)):
        disk, stream = copy(scene(name)), Stream(begin)

        def look(disk: Disk = disk, stream: Stream = stream) -> None:
            polled(disk, [stream])
            if stops:
                raise Stopped

        with contextlib.suppress(Stopped):
            fast_forward(opened(SimStore(disk, turn=once(at, look))), "dev")
        fast_forward(opened(SimStore(disk)), "dev")
        read = stream.read_by_consumer(opened(SimStore(disk)))
        following = consumers(opened(SimStore(disk))).next_snapshot("c")
        if following is not None and begin.id < following < new[0].id:
            continue  # main has a gap there, which is an error for the next stream of the consumer
        assert all(snapshot in new for snapshot in read), f"{log[at]}: read {[snapshot.id for snapshot in stream.read]}"


def polled(disk: Disk, streams: list[Stream]) -> None:
    for stream in streams:
        stream.poll(opened(SimStore(disk)))


def once(at: int, act: Callable[[], None]) -> Callable[[Operation], None]:
    """Return what calls `act` before the operation with this number."""
    numbers = itertools.count()
    return lambda _: act() if next(numbers) == at else None


def without_orphans(store: TableStore) -> None:
    remove_orphans(store, older_than=store.ambient.now_millis() + 1, executor=OwnProcess())


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("act", [without_orphans, only_last])
def test_files_of_both_histories_are_kept_after_an_interruption(name: str, act: Callable[[TableStore], None]) -> None:
    """Until the second call, main may have snapshots of both histories."""
    log = list[Operation]()
    fast_forward(opened(SimStore(copy(scene(name)), log=log)), "dev")
    for stop in (number for number, operation in enumerate(log) if changes(operation)):
        disk = copy(scene(name))
        with contextlib.suppress(Stopped):
            fast_forward(opened(SimStore(disk, turn=once(stop, halt))), "dev")
        act(opened(SimStore(disk)))
        main = opened(SimStore(disk))
        for snapshot in snapshots_of(main):
            for entry, folder in with_folders(main, live_entries(main, snapshot)):
                path = f"{folder}/{entry.file.name}"
                assert path in disk.files, f"stopped before {log[stop]}: snapshot {snapshot.id}"


def halt() -> None:
    raise Stopped
