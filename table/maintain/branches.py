"""Branches: lines of snapshots of their own over the table's shared files (table-format 13.6)."""

from __future__ import annotations

from penstock.errors import CommitConflict, ConfigError
from penstock.table.maintain.tags import tag_files
from penstock.table.meta.branches import branch_names
from penstock.table.meta.errors import BranchMissing
from penstock.table.meta.snapshot_json import snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import tag_json
from penstock.table.schema.numbered_files import MAIN_BRANCH, branch_folder
from penstock.table.schema.schema_files import schema_json


def create_branch(store: TableStore, name: str, tag: str | None = None) -> None:
    """A branch that begins with a tag's snapshot, or with no snapshot at all.

    Its schemas come last, the newest at the very end. Dies half way: call it again.
    """
    _check_name(store, name)
    found = tag_files(store).get(tag) if tag is not None else None
    newest = store.schema().id if found is None else found.snapshot.schema_id
    branch = store.schemas.on_branch(name)
    if newest in branch.ids():
        raise ConfigError(f"there is a branch {name!r} already", table=store.name)
    root = branch_folder(store.paths.root, name)
    if found is not None:
        store.storage.write(f"{root}/tag/tag-{tag}", tag_json(found))
        store.storage.write(f"{root}/snapshot/snapshot-{found.snapshot.id}", snapshot_json(found.snapshot))
    for schema_id in store.schemas.ids():
        if schema_id > newest:
            continue
        schema = store.schemas.get(schema_id)
        if not branch.create(schema) and branch.get(schema_id) != schema:
            raise CommitConflict(f"another job makes branch {name!r} at the same time", table=store.name)


def _check_name(store: TableStore, name: str) -> None:
    if name == MAIN_BRANCH or not name.strip() or name.isdigit() or "/" in name:
        raise ConfigError(
            f"{name!r} cannot name a branch", table=store.name, hint="main, plain numbers and slashes are not for names"
        )


def delete_branch(store: TableStore, name: str) -> None:
    """The branch's snapshots, tags and schemas go; its data files become orphans unless others hold them."""
    if name not in branch_names(store):
        raise _missing(store, name)
    if store.schema().options.get("scan.fallback-branch") == name:
        raise ConfigError(
            f"branch {name!r} is the table's fallback branch",
            table=store.name,
            hint="reset the option scan.fallback-branch first",
        )
    store.storage.delete_tree(branch_folder(store.paths.root, name))


def fast_forward(store: TableStore, name: str) -> None:
    """Make the main branch what the branch is: main's snapshots, tags and schemas since the branch began give way.

    Dies half way: main is shorter, the branch still whole; call it again. No one may write to main meanwhile.
    """
    if name not in branch_names(store):
        raise _missing(store, name)
    main, branch = store.on_branch(None), store.on_branch(name)
    ids = branch.snapshots.ids()
    if not ids:
        raise ConfigError(f"branch {name!r} has no snapshot to go forward to", table=store.name)
    first = branch.snapshots.get(ids[0])
    main.storage.delete(f"{main.paths.snapshot_folder}/LATEST")
    for number in reversed([number for number in main.snapshots.ids() if number >= first.id]):
        main.storage.delete(main.paths.snapshot(number))
    for tag in tag_files(main).all():
        if tag.snapshot.id >= first.id:
            tag_files(main).delete(tag.name)
    _copy_schemas(main, branch, first.schema_id)
    for number in ids:
        main.storage.write(main.paths.snapshot(number), snapshot_json(branch.snapshots.get(number)))
    for tag in tag_files(branch).all():
        main.storage.write(main.paths.tag(tag.name), tag_json(tag))
    main.snapshots.folder.write_latest(ids[-1])
    store.schemas.forget()


def _copy_schemas(main: TableStore, branch: TableStore, first: int) -> None:
    """The branch's versions in place of main's, never without one: snapshots before the branch need theirs."""
    wanted = [number for number in branch.schemas.ids() if number >= first]
    for number in wanted:
        main.storage.write(main.schemas.path(number), schema_json(branch.schemas.get(number)))
    for number in main.schemas.ids():
        if number > wanted[-1]:
            main.storage.delete(main.schemas.path(number))


def _missing(store: TableStore, name: str) -> BranchMissing:
    names = ", ".join(branch_names(store))
    hint = f"branches are {names}" if names else None
    return BranchMissing(f"there is no branch {name!r}", table=store.name, hint=hint)
