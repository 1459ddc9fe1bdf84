"""The rows that a target table receives: their kinds, and bad records with their messages."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.formats.canal.encode import canal_message
from penstock.formats.change import BadRecord, ChangeBatch, RowBatch
from penstock.ingest.fetched_chunk import FetchedMessages
from penstock.row_kinds import INSERT, is_retract
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.incoming_kinds import check_retracts, kept_rows, row_kinds
from penstock.table.merge.spec import MergeSpec
from penstock.table.schema.table_schema import TableSchema

_KEYS_PER_SCHEMA = 4096


def as_append(batch: RowBatch) -> RowBatch:
    """Return the rows for a table without keys: only new rows. Deletes and the old images of updates are dropped."""
    retracts = is_retract(batch.kinds)
    kept = batch.filter(~retracts) if retracts.any() else batch
    return replace(kept, kinds=np.full(len(kept), INSERT, np.int8))


def as_upsert(batch: RowBatch, table: TableSchema) -> RowBatch:
    """Return the rows for a table with keys, with the kinds that its options ask for."""
    merge = _merge(table)
    batch = replace(batch, kinds=row_kinds(merge, pa.Table.from_batches([batch.rows]), batch.kinds))
    kept = kept_rows(merge, batch.kinds)
    if kept is not None:
        batch = batch.filter(kept)
    check_retracts(merge, batch.kinds)
    return batch


def with_message(record: BadRecord, change: ChangeBatch, fetched: FetchedMessages | None) -> BadRecord:
    """Return the bad record with its fetched message.

    A source without messages has rows only: use the last row at this position.
    """
    if fetched is not None:
        place = int(np.searchsorted(fetched.messages.offsets, record.pos))
        return replace(record, raw=fetched.messages.values[place] or b"")
    rows = np.flatnonzero(change.positions == record.pos)
    return replace(record, raw=canal_message(change, int(rows[-1])) if len(rows) else b"")


@lru_cache(maxsize=_KEYS_PER_SCHEMA)
def _merge(table: TableSchema) -> MergeSpec:
    return merge_spec(table)
