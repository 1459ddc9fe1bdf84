"""The changes of one bucket of a history table, and the versions that follow from them and the table's rows."""

from __future__ import annotations

import uuid
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import DELETE, UPDATE_BEFORE, RowKinds
from penstock.schema_evolution.row_versions import END_POSITION, OPEN, source_keys
from penstock.schema_evolution.version_chain import VersionChain
from penstock.table.buckets.bucket_state import TableState
from penstock.table.compaction.lookup_file import StoredFile
from penstock.table.compaction.lookup_store import LookupStore, lookup_folder
from penstock.table.lookup.dimension import Dimension
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.indexes import LOOKUP_CACHE_MAX_DISK_SIZE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import one_batch
from penstock.table.values.sort_keys import sort_keys

WINDOW_BYTES = 64 << 20  # changes in memory before their versions are written


class HistoryRows:
    """The changes of one bucket, or with dynamic buckets of one writer and partition, until their versions are written.

    In memory: one window of changes. The current versions of earlier windows of the batch are in local files.
    """

    def __init__(self, store: TableStore, schema: TableSchema, state: TableState, ignored: Collection[str]) -> None:
        self._store, self._schema, self._state, self._ignored = store, schema, state, ignored
        self._arrow, self._keys = arrow_schema(schema.fields), source_keys(schema)
        self._types = [schema.field(name).type for name in self._keys]
        self._changes: list[pa.RecordBatch] = []
        self._kinds: list[RowKinds] = []
        self._bytes = 0
        self._table: Dimension | None = None
        self._local: LookupStore | None = None
        self._windows: list[tuple[str, StoredFile, RowKinds]] = []

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def is_full(self) -> bool:
        return self._bytes >= WINDOW_BYTES

    def add(self, batch: pa.RecordBatch, kinds: RowKinds) -> None:
        self._changes.append(batch)
        self._kinds.append(kinds)
        self._bytes += batch.nbytes

    def versions(self) -> tuple[pa.RecordBatch, RowKinds]:
        """Return the rows to write for the changes added so far."""
        changes = one_batch(pa.Table.from_batches(self._changes, self._arrow))
        kinds = np.concatenate(self._kinds)
        self._changes, self._kinds, self._bytes = [], [], 0
        chain = VersionChain.of(self._schema, self._current(changes), changes, kinds)
        with_old = self._schema.typed[CHANGELOG_PRODUCER].copies_input
        return chain.written(self._ignored, with_old=with_old)

    def remember(self, rows: pa.RecordBatch, kinds: RowKinds) -> None:
        """Keep the current versions among written rows, which are in key order, for later changes of the batch."""
        kept = np.asarray(pc.equal(rows.column(END_POSITION), OPEN)) & (kinds != UPDATE_BEFORE)
        if not kept.any():
            return
        if self._local is None:
            self._local = LookupStore(lookup_folder(), self._schema.typed[LOOKUP_CACHE_MAX_DISK_SIZE])
        name = f"{uuid.uuid4().hex}-versions"
        stored = self._local.put(name, [rows.filter(pa.array(kept))], self._keys, self._types)
        self._windows.append((name, stored, kinds[kept]))

    def forget(self) -> None:
        """Forget written rows: no more changes of their keys come in this batch."""
        if self._local is not None:
            self._local.drop(name for name, _, _ in self._windows)
        self._windows = []

    def _current(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return the current versions of the keys of some changes: of this batch, or else of the table."""
        codes = sort_keys([changes.column(name) for name in self._keys], self._types)
        _, firsts = np.unique(codes, return_index=True)
        wanted = changes.select(list(self._keys)).take(pa.array(firsts))
        found = []
        for _, stored, kinds in reversed(self._windows):
            probes, places = stored.find(wanted.columns)
            live = places[kinds[places] != DELETE]
            if len(live):
                found.append(stored.rows(live).select(self._arrow.names).cast(self._arrow))
            left = np.ones(len(wanted), np.bool_)
            left[probes] = False
            wanted = wanted.filter(pa.array(left))
        found.append(self._in_table(wanted))
        return one_batch(pa.concat_tables(found))

    def _in_table(self, keys: pa.RecordBatch) -> pa.Table:
        snapshot = self._state.snapshot
        if snapshot is None or not len(keys):
            return self._arrow.empty_table()
        if self._table is None:
            self._table = Dimension.open(
                self._store, by=self._schema.primary_keys, columns=self._schema.names, snapshot=snapshot.id
            )
        probes = {name: keys.column(name) for name in self._keys} | {END_POSITION: pa.repeat(OPEN, len(keys))}
        return self._table.rows([probes[name] for name in self._schema.primary_keys]).rows.cast(self._arrow)
