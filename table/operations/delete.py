"""DELETE with a condition: by -D rows in tables with keys, by rewritten files or deletion vectors in tables without."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.assign_postponed import warn_of_postponed_rows
from penstock.table.operations.changed_files import ChangedFiles, repeated
from penstock.table.operations.deleted_rows import FilesDelete, RowRemoval
from penstock.table.operations.executor import Executor, OwnProcess
from penstock.table.operations.row_copies import RowCopies, copied, one_unit, units_by_bucket, unless_expired
from penstock.table.operations.waiting_rows import compact_waiting_rows
from penstock.table.operations.write import TableWriter
from penstock.table.read.filter import RowFilter
from penstock.table.read.plan import plan_state
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import Travel
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema


def delete_rows(store: TableStore, where: pc.Expression | str, executor: Executor | None) -> list[Snapshot]:
    """Delete the rows that match `where`. No snapshot is committed when no row matches.

    With keys it is an ordinary write: CommitConflict when another job writes the same buckets in the meantime. Rows
    that wait for a compaction to be read, as in write-only tables with deletion vectors, are compacted first. Without
    keys it is one OVERWRITE: files with matching rows are rewritten without them, or, with deletion vectors, only
    marked. It is repeated, up to three times, when another job rewrote one of the files.

    `executor` runs a unit per bucket, and in tables without buckets per group of files. A unit keeps a batch of rows in
    memory, and with keys its write buffer.
    """
    condition = RowFilter.of(where, arrow_schema(store.schema().fields), store.name)
    user = store.new_commit_user()
    if store.schema().primary_keys:
        return _delete_by_keys(store, condition, user, executor or OwnProcess())
    return repeated(lambda: _delete_from_files(store, condition, user, executor or OwnProcess()))


def _delete_by_keys(store: TableStore, condition: RowFilter, user: str, executor: Executor) -> list[Snapshot]:
    check_deletable(store.schema(), store.name)
    compact_waiting_rows(store, condition.expression, executor)
    base = store.snapshots.latest()
    if base is None:
        return []
    warn_of_postponed_rows(store, "DELETE")
    # Options of the table may make reads return an old snapshot. The newest rows are deleted.
    scan = Scan.of(store, where=condition.given, falls_back=False)
    scan = replace(scan, travel=Travel(), between=None, snapshot=base)
    # The writers' base is the snapshot that is read, so that the commit detects rows other jobs write later.
    opened = partial(TableWriter.open, store, user, base=base)
    layout = Layout.of(store.schema())
    # A full compaction that is due also opens buckets that were not written, so it needs one writer for all.
    apart = layout.mode is BucketMode.FIXED and FullCompaction.of(store, layout).every in {None, 1}
    with unless_expired(store, base):
        units = (units_by_bucket if apart else one_unit)(scan.plan().splits)
        messages = copied(RowCopies(scan, opened, DELETE), units, executor, store)
    with opened() as writer:
        return writer.commit_messages(messages) if messages else []


def check_deletable(schema: TableSchema, table: str) -> None:
    """Raise ConfigError unless -D rows delete under the table's merge engine and options (the same rule as in Java)."""
    spec = merge_spec(schema)
    if not spec.accepts_deletes:
        option = spec.engine.removes_by
        hint = f"set {option.key} = true on the table" if option else None
        raise ConfigError(
            f"rows of a table with merge-engine = {spec.engine.name} cannot be deleted",
            table=table,
            paimon_message=f"merge engine {spec.engine.name} does not support batch delete",
            hint=hint,
        )
    if spec.ignore_delete or spec.rowkind_field:
        raise ConfigError(
            "the table ignores -D rows, or has a rowkind.field that decides the kind of a row",
            table=table,
            hint="reset ignore-delete and rowkind.field first",
        )


def _delete_from_files(store: TableStore, condition: RowFilter, user: str, executor: Executor) -> list[Snapshot]:
    """Make one attempt to delete from a table without keys."""
    with ChangedFiles(store, store.snapshots.latest()) as changed:
        work = FilesDelete(RowRemoval.of(store, changed.layout.schema), condition)
        splits = plan_state(store, changed.layout, changed.base, condition.expression).splits
        for removed in executor.run(work, changed.units(splits, whole=work.removal.marks)):
            changed.add(removed)
        return changed.commit(user)
