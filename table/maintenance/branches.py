"""Branches: separate lines of snapshots over the table's shared data files."""

from __future__ import annotations

from penstock.errors import CommitConflict, ConfigError
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.branches import branch_names
from penstock.table.meta.errors import BranchMissing
from penstock.table.meta.snapshot_json import snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import tag_json
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.schema.numbered_files import MAIN_BRANCH, branch_folder
from penstock.table.values.names import LONGEST_NEW, path_step


def create_branch(store: TableStore, name: str, tag: str | None = None) -> None:
    """Create a branch that begins at a tag's snapshot, or without a snapshot.

    Its schemas are written last, and the newest of them at the very end. After a crash half way, call it again.
    """
    _check_name(store, name)
    found = tag_files(store).get(tag) if tag is not None else None
    newest = store.schema().id if found is None else found.snapshot.schema_id
    branch = store.schemas.on_branch(name)
    if newest in branch.ids():
        raise ConfigError(f"there is already a branch {name!r} already", table=store.name)
    root = branch_folder(store.paths.root, name)
    if found is not None:
        store.storage.write(f"{root}/tag/tag-{tag}", tag_json(found))
        store.storage.write(f"{root}/snapshot/snapshot-{found.snapshot.id}", snapshot_json(found.snapshot))
    for schema_id in store.schemas.ids():
        if schema_id > newest:
            continue
        schema = store.schemas.get(schema_id)
        if not branch.create(schema) and branch.get(schema_id) != schema:
            raise CommitConflict(f"another job creates branch {name!r} at the same time", table=store.name)


def _check_name(store: TableStore, name: str) -> None:
    path_step(name, "branch", longest=LONGEST_NEW, table=store.name)
    if name == MAIN_BRANCH or name.isdigit():
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
    store.storage.delete_tree(branch_folder(store.paths.root, name))


def branch_missing(store: TableStore, name: str) -> BranchMissing:
    """Return the error for an unknown branch; its hint lists the branches that exist."""
    names = ", ".join(branch_names(store))
    hint = f"branches are {names}" if names else None
    return BranchMissing(f"there is no branch {name!r}", table=store.name, hint=hint)
