"""The metadata of a branch, and its way into the main branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import CommitConflict
from penstock.table.maintenance.rollback import RollbackResult, delete_changelogs_after, set_consumers_back
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.snapshot import Snapshot, snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import Tag, tag_json
from penstock.table.schema.schema_files import schema_json
from penstock.table.schema.table_schema import TableSchema


def first_replaced(shared: int, ids: Sequence[int]) -> int:
    """Return the first snapshot id of the branch that is another snapshot than in main."""
    return shared + 1 if shared else ids[0]


def replace_main(
    main: TableStore, branch: TableStore, ids: Sequence[int], shared: int, earliest: int, undone: RollbackResult
) -> None:
    """Replace main's history after the snapshot `shared`; readers always find a snapshot of one of the histories.

    A call that is repeated after a crash mistakes snapshots that were copied before for shared ones. So everything of
    the old history that is not overwritten is deleted before the first copy. Only main's newest snapshots may stay:
    those after the branch's last are deleted in any case, and the hint of the earliest snapshot excludes one before its
    first.
    """
    # Read as a whole before main is changed: without the branch, main could not be completed.
    history = BranchHistory.read(branch, ids)
    for tag in undone.tags:
        tag_files(main).delete(tag)
    # Main keeps its own changelogs if they lead to its snapshots without a gap: readers of Java search them by times.
    # It gets none of the branch: streams of main would read one as the next of main's.
    delete_changelogs_after(main, shared if earliest <= shared + 1 else 0)
    set_consumers_back(main, first_replaced(shared, ids))
    last = main.snapshots.latest_id() or 0
    # A listing may miss the newest.
    undone_ids = {*undone.snapshots, *range(shared + 1, last + 1)}
    # Without the hint, readers list the folder and find the newest of the files that are there.
    main.storage.delete(f"{main.paths.snapshot_folder}/LATEST")
    if history.has_other_schemas(main):
        # Files of one history must not be read with schemas of the other: the rows would be wrong. So main has no
        # snapshot for a while, and this hint says that it is not a table that never had one.
        main.snapshots.folder.begin_at(earliest)
        _delete(main, undone_ids)
    history.add_schemas(main)
    main.snapshots.folder.begin_at(earliest)
    # No stream may read a snapshot of the branch after one of main, as nothing would show it. So those before the
    # branch's first are deleted, but for the newest, which plain reads find, and the others are replaced oldest first.
    _delete(main, {number for number in undone_ids if number < min(earliest, last)})
    for snapshot in history.snapshots:
        main.storage.write(main.paths.snapshot(snapshot.id), snapshot_json(snapshot))
    _delete(main, {number for number in undone_ids if not earliest <= number <= ids[-1]})
    # Last: until then readers find the newest snapshot by listing.
    main.snapshots.folder.write_latest(ids[-1])
    history.complete(main)


def _delete(main: TableStore, snapshots: Iterable[int]) -> None:
    # Newest first, so that after a crash the snapshots that are left are a history without gaps.
    for number in sorted(snapshots, reverse=True):
        main.storage.delete(main.paths.snapshot(number))


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """The metadata files of a branch. Its data files are in main's folders."""

    schemas: Sequence[TableSchema]
    snapshots: Sequence[Snapshot]
    tags: Sequence[Tag]

    @classmethod
    def read(cls, branch: TableStore, ids: Sequence[int]) -> BranchHistory:
        """Raise CommitConflict if the branch is deleted meanwhile."""
        snapshots = [branch.snapshots.find(number) for number in ids]
        history = cls(
            [branch.schemas.get(number) for number in branch.schemas.ids()],
            [snapshot for snapshot in snapshots if snapshot is not None],
            tag_files(branch).all(),
        )
        known = {schema.id for schema in history.schemas}
        if None in snapshots or not {snapshot.schema_id for snapshot in history.snapshots} <= known:
            raise CommitConflict(
                "another job deletes the branch, or its snapshots, at the same time",
                table=branch.name,
                hint="nothing was changed; call it again if the branch still exists",
            )
        return history

    def has_other_schemas(self, main: TableStore) -> bool:
        """Return whether main has another schema under a number of one of the branch."""
        main_ids = set(main.schemas.ids())
        return any(schema.id in main_ids and main.schemas.get(schema.id) != schema for schema in self.schemas)

    def add_schemas(self, main: TableStore) -> None:
        """Write all versions of the branch, since any of them may have live files. Main is never without a schema."""
        for schema in self.schemas:
            main.storage.write(main.schemas.path(schema.id), schema_json(schema))

    def complete(self, main: TableStore) -> None:
        """Delete main's later schemas, which no snapshot has any more, and write the tags."""
        for number in main.schemas.ids():
            if number > self.schemas[-1].id:
                main.storage.delete(main.schemas.path(number))
        for tag in self.tags:
            main.storage.write(main.paths.tag(tag.name), tag_json(tag))
