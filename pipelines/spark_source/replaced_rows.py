"""Warnings about overwrites: rows that they may delete or pass over, because their queries do not read them.

An overwrite by path may delete rows that other jobs commit while the query runs.

Spark does not say to the format which tables the query reads. If it reads the table that it overwrites, it does not
see these rows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from penstock.table.errors import ManifestMissing, RowsUnread
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.write import TableWriter

log = logging.getLogger(__name__)


def warn_of_unseen_partitions(writer: TableWriter) -> None:
    """Log a warning about partitions that a dynamic overwrite of its own table passes over: all their rows wait.

    It may not have to read them, so it is not refused.
    """
    if not isinstance(writer, OverwriteWriter):
        return
    try:
        writer.refuse_unseen_partitions()
    except RowsUnread as waiting:
        log.warning(
            "event=waiting_partitions_passed_over table=%s count=%d first=%s note=their rows are readable only after "
            "CALL sys.compact, and the query of this overwrite does not read them",
            writer.store.name,
            len(waiting.partitions),
            ",".join(f"{name}={value}" for name, value in waiting.partitions[0].items()),
        )


def warn_of_replaced_rows(store: TableStore, began: int, overwrite: Snapshot) -> None:
    """Log a warning if other jobs changed the overwritten partitions after the query began.

    `began` is the newest snapshot at that time, 0 if there was none. The changes are lost if the query read the table.
    """
    between = {number: store.snapshots.find(number) for number in range(began + 1, overwrite.id)}
    others = [
        number for number, found in between.items() if found is None or found.commit_kind is not CommitKind.COMPACT
    ]
    if not others:
        return
    replaced = {entry.partition for entry in delta_entries(store, overwrite)}
    changed = [str(number) for number in others if _may_change(store, between[number], replaced)]
    if changed:
        log.warning(
            "event=rows_of_others_replaced table=%s overwrite=%d snapshots=%s note=they were committed after the query "
            "of an overwrite by path began. If it reads this table, roll back to snapshot %d, and use a name of the "
            "catalog or the option base-snapshot",
            store.name,
            overwrite.id,
            ",".join(changed),
            overwrite.id - 1,
        )


def _may_change(store: TableStore, snapshot: Snapshot | None, partitions: Collection[bytes]) -> bool:
    if snapshot is None:
        # It has expired meanwhile, and nobody knows any more what it changed.
        return True
    try:
        return any(entry.partition in partitions for entry in delta_entries(store, snapshot))
    except ManifestMissing:
        # An expiry deletes manifests before their snapshot. The overwrite is committed, and must not fail any more.
        return True
