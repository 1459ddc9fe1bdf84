"""The targets of tables that were emptied at the source: their rows are marked as deleted, or their versions ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.row_kinds import UPDATE_AFTER
from penstock.schema_evolution.row_versions import IS_CURRENT, ended
from penstock.schema_evolution.soft_deletes import DELETED, marked
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from penstock.table.operations.write import TableWriter

log = logging.getLogger(__name__)


def mark_rows(store: TableStore, identity: BatchIdentity) -> None:
    """Mark all rows as deleted, in one snapshot. Called again for the same batch, it changes nothing.

    Rows that the source still has are read again afterwards, and lose their mark then. In memory: one batch.
    """
    _update(store, identity, pc.field(DELETED).is_null() | ~pc.field(DELETED), marked)
    log.info("event=rows_marked_deleted table=%s batch=%d", store.name, identity.number)


def end_versions(store: TableStore, identity: BatchIdentity) -> None:
    """End all current versions, in one snapshot. Called again for the same batch, it changes nothing.

    Versions of rows that the source still has go on when these are read again. In memory: one batch.
    """
    _update(store, identity, pc.field(IS_CURRENT), ended)
    log.info("event=versions_ended table=%s batch=%d", store.name, identity.number)


def _update(
    store: TableStore,
    identity: BatchIdentity,
    where: pc.Expression,
    updated: Callable[[pa.RecordBatch, int], pa.RecordBatch],
) -> None:
    with TableWriter.open(store, identity.user) as writer:
        for rows in Table(store).scan(where=where).to_batches():
            writer.write_fitted(updated(rows, identity.planned_at), np.full(len(rows), UPDATE_AFTER, np.int8))
        # A batch that the table has already is not committed again.
        writer.commit(identity.number, properties=identity.properties)
