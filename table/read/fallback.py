"""Reads of partitions that the main branch does not have from the branch named by `scan.fallback-branch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.options.buckets import BUCKET
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import to_arrow


@dataclass(frozen=True, slots=True)
class Fallback:
    """The fallback branch for partitions that main does not have.

    `snapshot` is the branch's snapshot that matches the read of main, and `hidden` the partitions of main, which take
    precedence.
    """

    store: TableStore
    schema: TableSchema
    snapshot: Snapshot | None
    hidden: frozenset[bytes]

    @classmethod
    def of(
        cls, main: TableStore, options: Mapping[str, str], snapshot: Snapshot | None, *, travels: bool
    ) -> Fallback | None:
        """Return None when no fallback branch is named.

        `options` are the table's options with the options of the read applied. When the read travels in time, ids and
        tags refer to main, so the branch is read as of the time of main's snapshot.
        """
        name = (TableOptions(options)[SCAN_FALLBACK_BRANCH] or "").strip()
        if not name or name == (main.paths.branch or "main"):
            return None
        store = main.on_branch(None if name == "main" else name)
        found = store.snapshots.latest()
        if travels and snapshot is not None:
            found = snapshot_at(store.snapshots, snapshot.time_millis)
        schema = store.schema() if found is None or not travels else store.schemas.get(found.schema_id)
        _check_alike(main, store)
        return cls(store, schema, found, _partitions(main, snapshot))

    def layout(self, options: Mapping[str, str]) -> Layout:
        """Return the branch's layout under the options of the read; the branch keeps its own number of buckets."""
        own = {key: value for key, value in options.items() if key not in {BUCKET.key, SCAN_FALLBACK_BRANCH.key}}
        return Layout.of(replace(self.schema, options={**self.schema.options, **own}))


def readable_entries(store: TableStore, snapshot: Snapshot | None, *, travels: bool = False) -> list[ManifestEntry]:
    """Return the live files of a snapshot, and of the fallback branch in partitions that main does not have."""
    parts = readable_parts(store, snapshot, travels=travels)
    return [entry for _, entries in parts for entry in entries]


def readable_parts(
    store: TableStore, snapshot: Snapshot | None, *, travels: bool
) -> list[tuple[TableStore, list[ManifestEntry]]]:
    """Return the same files by the branch that has them."""
    own = [] if snapshot is None else live_entries(store, snapshot)
    fallback = Fallback.of(store, store.schema().options, snapshot, travels=travels)
    if fallback is None or fallback.snapshot is None:
        return [(store, own)]
    of_branch = live_entries(fallback.store, fallback.snapshot)
    shown = [entry for entry in of_branch if entry.partition not in fallback.hidden]
    return [(store, own), (fallback.store, shown)]


def check_fallback(store: TableStore, options: Mapping[str, str]) -> None:
    """Raise ConfigError if the options name a fallback branch that the table does not have."""
    name = options.get(SCAN_FALLBACK_BRANCH.key, "").strip()
    if not name:
        return
    try:
        store.on_branch(None if name == "main" else name)
    except TableMissing as missing:
        raise ConfigError(
            f"the table has no branch {name!r}",
            table=store.name,
            option=SCAN_FALLBACK_BRANCH.key,
            hint="create it first: CALL sys.create_branch",
        ) from missing


def _partitions(store: TableStore, snapshot: Snapshot | None) -> frozenset[bytes]:
    if snapshot is None:
        return frozenset()
    # All partitions of main, without the filter of the read: a partition that main has is never read from the branch.
    return frozenset(entry.partition for entry in live_entries(store, snapshot))


def _check_alike(main: TableStore, branch: TableStore) -> None:
    """Raise ConfigError unless both branches have the same columns and keys.

    As in Paimon, primary keys are compared only if main has one.
    """
    ours, theirs = main.schema(), branch.schema()
    if _columns(ours) != _columns(theirs):
        raise ConfigError(
            f"main and its fallback branch {branch.paths.branch} have different columns",
            table=main.name,
            main=", ".join(ours.names),
            branch=", ".join(theirs.names),
            hint=f"make the schemas equal, or reset the option {SCAN_FALLBACK_BRANCH.key}",
        )
    if ours.partition_keys != theirs.partition_keys or (ours.primary_keys and ours.primary_keys != theirs.primary_keys):
        raise ConfigError(
            f"main and its fallback branch {branch.paths.branch} have different keys",
            table=main.name,
            main=", ".join(ours.primary_keys) or "none",
            branch=", ".join(theirs.primary_keys) or "none",
            hint=f"make the schemas equal, or reset the option {SCAN_FALLBACK_BRANCH.key}",
        )


def _columns(schema: TableSchema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, to_arrow(field.type)) for field in schema.fields]
