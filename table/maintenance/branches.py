"""Branches: separate histories of snapshots over the table's shared data files."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.errors import CommitConflict, ConfigError
from penstock.table.errors import BranchMissing, TagMissing
from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.maintenance.branch_history import first_replaced, replace_main
from penstock.table.maintenance.rollback import RollbackResult, set_consumers_back
from penstock.table.maintenance.tags import is_kept, tag_files
from penstock.table.meta.snapshot import Snapshot, snapshot_json
from penstock.table.meta.snapshot_files import HintedFolder
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import tag_json
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.schema.numbered_files import MAIN_BRANCH, branch_folder
from penstock.table.schema.table_folder import delete_table_folder, old_snapshots
from penstock.table.values.names import LONGEST_NEW, path_step


def create_branch(store: TableStore, name: str, tag: str | None = None) -> None:
    """Create a branch that begins at a tag's snapshot, or without a snapshot.

    Its schemas are written last, and the newest of them at the very end. After a crash half way, call it again.
    """
    _check_name(store, name)
    with store.commits.exclusive(store):
        _create_branch(store, name, tag)


def _create_branch(store: TableStore, name: str, tag: str | None) -> None:
    tagged = tag_files(store).get(tag) if tag is not None else None
    # This version is written last, so a branch that has it is complete, and one that lacks it was left by a crash.
    newest = store.schema().id if tagged is None else tagged.snapshot.schema_id
    branch = store.schemas.on_branch(name)
    if newest in branch.ids():
        raise ConfigError(
            f"there is already a branch {name!r}",
            table=store.name,
            hint="choose another name, or delete the branch first",
        )
    if store.commits.versions is not None:
        store.commits.versions.create_branch(store, name, tag)
        return
    root = branch_folder(store.paths.root, name)
    _check_snapshots(store, name, None if tagged is None else tagged.snapshot.id)
    if tagged is not None:
        store.storage.write(f"{root}/tag/tag-{tag}", tag_json(tagged))
        store.storage.write(f"{root}/snapshot/snapshot-{tagged.snapshot.id}", snapshot_json(tagged.snapshot))
        # The hint, which Java does not write, shows the snapshot to a writer whose listing does not have it yet.
        HintedFolder(store.storage, f"{root}/snapshot", "snapshot-").write_latest(tagged.snapshot.id)
    for schema_id in store.schemas.ids():
        if schema_id > newest:
            continue
        schema = store.schemas.get(schema_id)
        if not branch.create(schema) and branch.get(schema_id) != schema:
            raise CommitConflict(
                f"another job creates branch {name!r} at the same time",
                table=store.name,
                hint="choose another name, or run it again when the other job has ended",
            )
    # Whoever deletes files looks at branches that have a schema. Before, only the tag or the snapshot kept the files.
    if tagged is not None and not is_kept(store, tagged.snapshot):
        delete_table_folder(store.storage, root)
        raise TagMissing(
            f"the tag {tag!r} was deleted while the branch was created",
            table=store.name,
            branch=name,
            hint="create the branch again, from a tag that exists",
        )


def _check_snapshots(store: TableStore, name: str, first: int | None) -> None:
    """Raise ConfigError when the folder of the new branch has snapshots besides the one with which it begins."""
    left = [
        snapshot
        for snapshot in old_snapshots(store.storage, branch_folder(store.paths.root, name))
        if snapshot != first
    ]
    if left:
        raise ConfigError(
            f"branch {name!r} has snapshots that an interrupted creation or deletion has left",
            table=store.name,
            snapshots=f"{left[0]} to {left[-1]}",
            hint="delete the branch, then create it again",
        )


def _check_name(store: TableStore, name: str) -> None:
    path_step(name, "branch", longest=LONGEST_NEW, table=store.name)
    if name == MAIN_BRANCH or name.isdecimal():
        raise ConfigError(
            f"{name!r} cannot be the name of a branch",
            table=store.name,
            hint="a branch name is not main, not a number, and has no slash",
        )


def delete_branch(store: TableStore, name: str) -> None:
    """Delete the branch's snapshots, tags and schemas. Its data files become orphans unless other branches use them."""
    if name not in branch_names(store):
        raise branch_missing(store, name)
    if store.schema().typed[SCAN_FALLBACK_BRANCH] == name:
        raise ConfigError(
            f"branch {name!r} is the table's fallback branch",
            table=store.name,
            hint="reset the option scan.fallback-branch first",
        )
    with store.commits.exclusive(store):
        if store.commits.versions is not None:
            store.commits.versions.delete_branch(store, name)
        else:
            delete_table_folder(store.storage, branch_folder(store.paths.root, name))


def branch_missing(store: TableStore, name: str) -> BranchMissing:
    """Return the error for an unknown branch; its hint lists the branches that exist."""
    names = ", ".join(branch_names(store))
    hint = f"branches are {names}" if names else "the table has no branches"
    return BranchMissing(f"there is no branch {name!r}", table=store.name, hint=hint)


log = logging.getLogger(__name__)


def fast_forward(store: TableStore, name: str) -> RollbackResult:
    """Replace the main branch with the branch `name`, and return what main lost by it.

    Main keeps the snapshots and tags that both histories share; everything later on main is replaced by the branch's
    snapshots, tags and schemas. If the beginning of the branch has expired, main's older snapshots are removed too, so
    that ids have no gap. Java keeps them, and with them snapshots that were never part of the branch. If main has
    others under the expired ids, it gets those of the branch after a gap that stops its streams; if the branch has no
    such snapshots, ConfigError.

    Readers meanwhile find a whole snapshot of main, or of the branch from some operation on: an older one of main if it
    has more snapshots than the branch. Only if both have changed their schema since, main may be empty for a while.
    After a crash half way the branch is still complete, and snapshots of main may be of either history; call it again.
    No job may write to main in the meantime.
    """
    if name not in branch_names(store):
        raise branch_missing(store, name)
    main, branch = store.on_branch(None), store.on_branch(name)
    with main.commits.exclusive(main):
        undone = _fast_forward(main, branch, name)
    main.commits.follow_history(main, removed=undone.tags)
    publish_if_enabled(main, again=True)  # ids name other snapshots now
    return undone


def _fast_forward(main: TableStore, branch: TableStore, name: str) -> RollbackResult:
    # By the hints and a request for the next file: a listing may miss the last snapshots, and they would be lost.
    first, last = branch.snapshots.earliest_id(), branch.snapshots.latest_id()
    if first is None or last is None:
        raise ConfigError(
            f"branch {name!r} has no snapshot to fast-forward to",
            table=main.name,
            hint="write into the branch first; its table is TABLE$branch_NAME",
        )
    shared = _newest_shared(main, branch)
    if main.commits.versions is None:  # a server that keeps the versions does it in its own way
        first = _begin(main, branch, shared, first, last)
    ids = range(first, last + 1)
    next_id = first_replaced(shared, ids)
    undone = _undone(main, branch, shared, ids, next_id)
    if main.commits.versions is not None:
        main.commits.versions.fast_forward(main, name)
    else:
        replace_main(main, branch, ids, shared, _earliest_kept(main, shared, ids), undone)
    # The ids behind the shared history have other snapshots now. Consumers that had read the former ones return there,
    # and so do consumers that have read some of the new ones meanwhile.
    set_consumers_back(main, next_id)
    if undone:
        log.warning("event=fast_forwarded table=%s branch=%s note=%s", main.name, name, undone)
    return undone


def _begin(main: TableStore, branch: TableStore, shared: int, first: int, last: int) -> int:
    """Return the first snapshot of the branch that main gets.

    Who has read a snapshot of main reads the next id next, and once the former is gone nothing shows that the latter is
    of the branch. So after a branch whose beginning has expired, main lacks the id that follows its newest snapshot.
    """
    begun, newest = main.snapshots.folder.earliest_hint or 0, _newest_of(main)
    if first < begun <= last and main.snapshots.find(begun) == branch.snapshots.find(begun):
        return begun  # as decided by a call that was interrupted, or main was fast-forwarded before and has expired
    before = first - 1
    if before <= shared or before > newest:
        return first
    if newest + 2 > last:
        raise ConfigError(
            "the first snapshots of the branch have expired, and main has others under their numbers: streams that have"
            " read those of main would continue in the branch, and miss changes that only the expired ones show",
            table=branch.name,
            branch=f"snapshots {first} to {last}",
            main=f"newest snapshot {newest}",
            hint=f"commit to the branch until it has snapshot {newest + 2}, then call it again; raise "
            "snapshot.num-retained.min of a branch that is to replace main",
        )
    return newest + 2


def _newest_of(main: TableStore) -> int:
    """Return the newest snapshot id that main had before a call that was interrupted; otherwise the newest of all.

    Before such a call deletes snapshots, it writes the hint of the earliest: unless the branch continues what is
    shared, that id is two or more after main's newest.
    """
    return max(main.snapshots.latest_id() or 0, (main.snapshots.folder.earliest_hint or 0) - 2)


def _newest_shared(main: TableStore, branch: TableStore) -> int:
    """Return the newest snapshot id that main and the branch both have, where the branch began.

    Snapshots and tags count; 0 when they share neither.
    """
    ours, theirs = _states(main), _states(branch)
    return max((number for number, state in ours.items() if theirs.get(number) == state), default=0)


def _states(store: TableStore) -> dict[int, Snapshot]:
    found = {tag.snapshot.id: tag.snapshot for tag in tag_files(store).all()}
    for number in store.snapshots.ids():
        snapshot = store.snapshots.find(number)
        if snapshot is not None:
            found[number] = snapshot
    return found


def _undone(main: TableStore, branch: TableStore, shared: int, ids: Sequence[int], next_id: int) -> RollbackResult:
    earliest = _earliest_kept(main, shared, ids)
    snapshots = [number for number in main.snapshots.ids() if number > shared or number < earliest]
    tags = [tag for tag in tag_files(main).all() if tag.snapshot.id > shared]
    first = min([ids[0], *(tag.snapshot.id for tag in tag_files(branch).all())])
    doubtful = [tag.name for tag in tags if tag.snapshot.id < first] if shared == 0 else []
    if doubtful:
        raise ConfigError(
            "the start of the branch is unknown: its first snapshots have expired, and its tag was deleted",
            table=branch.name,
            tags=", ".join(doubtful),
            hint="delete these tags of main first: they may not be part of the branch's history",
        )
    return RollbackResult.of(main, snapshots, tags, next_id)


def _earliest_kept(main: TableStore, shared: int, ids: Sequence[int]) -> int:
    """Return the first snapshot id of main afterwards: of those that lead to the first one of the branch."""
    first = main.snapshots.earliest_id() or 0  # those before are being deleted, or were by a call that was interrupted
    kept = {number for number in main.snapshots.ids() if first <= number <= shared}
    earliest = ids[0]
    while earliest - 1 in kept:
        earliest -= 1
    return earliest
