"""The step between reading and writing for tables whose keys may move between partitions: it finds each row's bucket.

All rows of a key arrive at one task, in the order of the source. The task looks up the key's current place, deletes the
key there if it moves, and sends the rows on to the writers of their buckets. Rows of other tables pass unchanged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.mapping.target_tables import TargetVersion, state_at
from penstock.pipelines.tasks.range_report import TableFailed
from penstock.pipelines.tasks.router import bucket_writer, own_number
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, SCHEMA, Blob, as_batch, pieces, unpacked
from penstock.table.buckets.layout import BucketMode
from penstock.table.buckets.route import slices
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.dynamic_buckets.cross_partition import KeyPlacer
from penstock.table.values.arrow_types import arrow_schema


def moves_keys(warehouse: CatalogSettings, versions: Iterable[tuple[str, int]]) -> bool:
    """Return whether any of the tables, by name and schema version, needs this step."""
    modes = (warehouse.layout(table, schema).mode for table, schema in versions)
    return any(mode is BucketMode.CROSS_PARTITION for mode in modes)


def place_task(
    warehouse: CatalogSettings, writers: int, mark: ErrorMark
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`. Its input is sorted as for `write_task`; its output has the same schema."""

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        with mark.carrying():
            yield from KeyPlacement(warehouse, writers).placed(batches)

    return place


@dataclass(slots=True)
class KeyPlacement:
    """Places the keys of one task. In memory: the places of the batch's keys of one table, and one blob of its rows."""

    warehouse: CatalogSettings
    writers: int
    _placer: KeyPlacer | None = None
    _table: tuple[str, TargetVersion] | None = None
    _position: int = 0
    _failed: set[str] = field(default_factory=set)
    _moving: dict[tuple[str, int], bool] = field(default_factory=dict)

    def placed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for given in batches:
            # All batches of a task's output must have the same types, and Spark may be set to large types for its own.
            batch = given.cast(SCHEMA)
            moving = self._moving_rows(batch)
            # Most batches are passed on unchanged, without a copy.
            if not moving.any():
                yield batch
                continue
            if not moving.all():
                yield batch.filter(pa.array(~moving))
            # In the order of the sorted input: the place of a key depends on its earlier rows.
            for row in np.flatnonzero(moving).tolist():
                table = batch.column("table")[row].as_py()
                if table in self._failed:
                    continue
                try:
                    yield from self._blob(batch, row)
                except PenstockError as error:
                    yield self._failure(table, error)

    def _failure(self, table: str, error: PenstockError) -> pa.RecordBatch:
        if error.retryable:
            raise error
        self._failed.add(table)
        # A row without a table, which a write task passes on to the driver like a report.
        failure = pickle.dumps(TableFailed(table, error))
        batch = as_batch(0, self._position, [Blob(NO_TABLE, TargetVersion(0), b"", 0, 0, 1, failure)])
        self._position += 1
        return batch

    def _moving_rows(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        names, schemas = batch.column("table").to_pylist(), batch.column("schema_id").to_pylist()
        return np.array([self._moves(name, schema) for name, schema in zip(names, schemas, strict=True)], np.bool_)

    def _moves(self, table: str, schema: int) -> bool:
        found = self._moving.get((table, schema))
        if found is None:
            found = table != NO_TABLE and self.warehouse.layout(table, schema).mode is BucketMode.CROSS_PARTITION
            self._moving[table, schema] = found
        return found

    def _blob(self, batch: pa.RecordBatch, row: int) -> Iterator[pa.RecordBatch]:
        table, writer = batch.column("table")[row].as_py(), batch.column("writer")[row].as_py()
        version = TargetVersion(batch.column("schema_id")[row].as_py(), batch.column("snapshot")[row].as_py())
        placer = self._opened(table, version, writer)
        rows, kinds = unpacked(batch.column("blob")[row].as_buffer(), arrow_schema(placer.layout.schema.fields))
        placed = placer.place(rows, kinds)
        blobs = [
            Blob(
                table,
                version,
                part.partition,
                part.bucket,
                bucket_writer(table, part.bucket, self.writers),
                count,
                data,
            )
            for part in slices(placed.partitions, placed.places, placed.buckets)
            for count, data in pieces(placed.rows.take(pa.array(part.rows)), placed.kinds[part.rows], table)
        ]
        if blobs:
            # The order between tasks within a bucket does not matter: no two tasks have rows of the same key.
            yield as_batch(writer, self._position, blobs)
            self._position += len(blobs)

    def _opened(self, table: str, version: TargetVersion, writer: int) -> KeyPlacer:
        # The input is sorted by table, so that a placer is not needed again after another table has begun.
        if self._placer is None or self._table != (table, version):
            store, layout = self.warehouse.store(table), self.warehouse.layout(table, version.schema)
            own = own_number(table, writer, self.writers)
            self._placer = KeyPlacer.opened(store, layout, state_at(store, version), own, self.writers)
            self._table = (table, version)
        return self._placer
