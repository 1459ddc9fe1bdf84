"""Changes of whole tables at the source, applied between batches."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.ingest.barriers import Barrier
from penstock.pipelines.run.identity import BatchIdentity
from penstock.pipelines.run.reading import Reading
from penstock.pipelines.run.tables import Targets
from penstock.table.catalog import check_usable
from penstock.table.commit.committer import Committer
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import RenameColumn, evolve

log = logging.getLogger(__name__)


def cross(barriers: Sequence[Barrier], identity: BatchIdentity, reading: Reading, targets: Targets) -> None:
    """Apply these in their order. Called again for the same batch, whole or after half of it, it changes nothing more:
    a table that was emptied carries the batch's identity, a column that has its new name is left."""
    for barrier in barriers:
        table = reading.shaping.target(barrier.database, barrier.table)
        if table is None or table not in targets.schemas:
            continue
        store = reading.warehouse.store(table)
        if barrier.kind == "rename-columns":
            pairs = [(reading.shaping.column(old), reading.shaping.column(new)) for old, new in barrier.columns]
            targets.put({table: _rename(store, pairs)})
        else:
            _empty(store, identity)


def _empty(store: TableStore, identity: BatchIdentity) -> None:
    committer = Committer(store, identity.user)
    if identity.is_in(committer.committed(identity.number), store.name):
        return
    committer.overwrite([], lambda partition: True, identity.number, properties=identity.properties)
    log.info("event=table_emptied table=%s batch=%d", store.name, identity.number)


def _rename(store: TableStore, pairs: Sequence[tuple[str, str]]) -> int:
    """The schema's id afterwards. Names that change places cannot be told from those that have: they stay."""
    schema = store.schema()
    changes = [RenameColumn(old, new) for old, new in pairs if old in schema.names and new not in schema.names]
    partitions = {old for old, _ in pairs} & set(schema.partition_keys)
    if partitions or len(changes) < len([old for old, _ in pairs if old in schema.names]):
        log.warning("event=columns_not_renamed table=%s columns=%s", store.name, pairs)
        return schema.id
    if not changes:
        return schema.id
    has_snapshots = store.snapshots.latest_id() is not None
    renamed = evolve(store.schemas, changes, has_snapshots, store.ambient.now_millis(), check_usable)
    log.info("event=columns_renamed table=%s columns=%s schema=%d", store.name, pairs, renamed.id)
    return renamed.id
