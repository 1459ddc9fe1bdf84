"""Fast-forward: replacing the main branch with another branch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.table.maintenance.branches import branch_missing
from penstock.table.maintenance.rollback import RollbackResult, delete_changelogs_after, set_consumers_back
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.branches import branch_names
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_json import snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import tag_json
from penstock.table.schema.schema_files import schema_json

log = logging.getLogger(__name__)


def fast_forward(store: TableStore, name: str) -> RollbackResult:
    """Replace the main branch with the branch `name`, and return what main lost by it.

    Main keeps the snapshots and tags that both histories share; everything later on main is replaced by the branch's
    snapshots, tags and schemas. If the beginning of the branch has expired, main's older snapshots are removed too, so
    that ids have no gap. Java keeps them, and with them snapshots that were never part of the branch.

    After a crash half way, main is shorter (empty when nothing is shared) and the branch still complete; call it
    again. No job may write to main in the meantime.
    """
    if name not in branch_names(store):
        raise branch_missing(store, name)
    main, branch = store.on_branch(None), store.on_branch(name)
    ids = branch.snapshots.ids()
    if not ids:
        raise ConfigError(f"branch {name!r} has no snapshot to fast-forward to", table=store.name)
    shared = _newest_shared(main, branch)
    undone = _undone(main, branch, shared, ids)
    main.storage.delete(f"{main.paths.snapshot_folder}/LATEST")
    # Deleted before the branch's snapshots are copied: afterwards a second call could not distinguish them from shared
    # ones.
    for number in reversed(undone.snapshots):
        main.storage.delete(main.paths.snapshot(number))
    for tag in undone.tags:
        tag_files(main).delete(tag)
    delete_changelogs_after(main, shared)
    _copy_schemas(main, branch)
    _copy_history(main, branch, ids)
    main.snapshots.folder.write_earliest(main.snapshots.ids()[0])
    main.snapshots.folder.write_latest(ids[-1])
    set_consumers_back(main, undone.consumers)
    if undone:
        log.warning("fast-forward table=%s branch=%s %s", main.name, name, undone)
    return undone


def _newest_shared(main: TableStore, branch: TableStore) -> int:
    """Return the newest snapshot id that main and the branch both have, where the branch began.

    Snapshots and tags count; 0 when they share none.
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


def _undone(main: TableStore, branch: TableStore, shared: int, ids: Sequence[int]) -> RollbackResult:
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
    return RollbackResult.of(main, snapshots, tags, max(shared + 1, 1 if shared else ids[0]))


def _earliest_kept(main: TableStore, shared: int, ids: Sequence[int]) -> int:
    """Return the first snapshot id of main afterwards.

    It is main's own first one if its snapshots lead into the branch's without a gap.
    """
    kept = [number for number in main.snapshots.ids() if number <= shared]
    return kept[0] if kept and kept[-1] + 1 >= ids[0] else ids[0]


def _copy_schemas(main: TableStore, branch: TableStore) -> None:
    """Replace main's schemas with all versions of the branch, since any of them may have live files.

    Main is never left without a schema.
    """
    wanted = branch.schemas.ids()
    for number in wanted:
        main.storage.write(main.schemas.path(number), schema_json(branch.schemas.get(number)))
    for number in main.schemas.ids():
        if number > wanted[-1]:
            main.storage.delete(main.schemas.path(number))


def _copy_history(main: TableStore, branch: TableStore, ids: Sequence[int]) -> None:
    for number in branch.snapshots.changelogs.numbers():
        changelog = branch.snapshots.find_changelog(number)
        if changelog is not None:
            main.snapshots.create_changelog(changelog)
    for number in ids:
        main.storage.write(main.paths.snapshot(number), snapshot_json(branch.snapshots.get(number)))
    for tag in tag_files(branch).all():
        main.storage.write(main.paths.tag(tag.name), tag_json(tag))
