"""A table whose rows are looked up by key: the dimension of a lookup join.

A `Dimension` is at one snapshot until it is refreshed, so that the rows of a batch come from one state of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.compaction.lookup_store import LookupStore, lookup_folder
from penstock.table.errors import SnapshotMissing
from penstock.table.lookup.by_columns import ColumnIndex
from penstock.table.lookup.by_key import PrimaryKeyIndex
from penstock.table.lookup.lookup_keys import distinct_keys, in_type, rows_of_keys
from penstock.table.lookup.matches import DimensionIndex, Matches
from penstock.table.lookup.partitions import LookupPartitions
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.indexes import LOOKUP_CACHE_MAX_DISK_SIZE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import rows_at
from penstock.table.values.names import no_column
from penstock.table.values.types import AtomicType, Field, type_json

_FLOATS = ("FLOAT", "DOUBLE")


class Dimension:
    """The lookup of rows of one table by the columns `by`.

    With the whole primary key, the table's sorted files are searched; otherwise its rows are sorted by the columns
    first. Both are kept in local files, which all processes of a machine share.
    """

    def __init__(
        self,
        store: TableStore,
        columns: tuple[str, ...],
        by: tuple[str, ...],
        local: LookupStore,
        partitions: LookupPartitions | None = None,
    ) -> None:
        self._store, self.columns, self.by, self._local, self._partitions = store, columns, by, local, partitions
        self._keys: tuple[str, ...] | None = None  # of the index
        self._at: Snapshot | None = None

    @classmethod
    def open(
        cls,
        store: TableStore,
        *,
        by: Sequence[str],
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        folder: Path | None = None,
        partitions: LookupPartitions | None = None,
    ) -> Dimension:
        """Open the table at `snapshot`, or at its newest one.

        `columns` are the columns to return, and `partitions` the partitions with the rows (None: all). Local files are
        kept in `folder`, up to the table's option `lookup.cache-max-disk-size`. ConfigError for columns that the table
        lacks or that cannot be compared, and for partitions that it cannot have.
        """
        schema = store.schema()
        wanted = tuple(schema.names if columns is None else columns)
        key = tuple(by)
        _check(schema, wanted, key, store.name)
        local = LookupStore(folder or lookup_folder(), schema.typed[LOOKUP_CACHE_MAX_DISK_SIZE])
        if partitions is not None:
            partitions.check(schema, store.name)
        dimension = cls(store, wanted, key, local, partitions)
        dimension.move_to(store.snapshots.latest_id() if snapshot is None else snapshot)
        return dimension

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self._store.name

    @property
    def snapshot(self) -> int | None:
        """Return the snapshot of the rows; None is a table without snapshots."""
        return None if self._at is None else self._at.id

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the columns that are returned."""
        return self._schema.select(self.columns)

    @property
    def is_unique(self) -> bool:
        """Return whether a key has at most one row."""
        single_partition = self._partitions is not None and self._partitions.is_one(self._schema)
        keys = set(self._schema.primary_keys) - (set(self._schema.partition_keys) if single_partition else set())
        return bool(self._schema.primary_keys) and keys <= set(self.by)

    @property
    def place(self) -> tuple[int, int]:
        """Return the snapshot of the rows and its mark, as `move_to` takes them; zeros without a snapshot."""
        return (0, 0) if self._at is None else (self._at.id, self._at.mark)

    def refresh(self) -> bool:
        """Move to the newest snapshot and the newest schema of the table. Return whether one of them is another one."""
        latest = self._store.snapshots.latest()
        # The id alone does not say it: after a rollback, another snapshot gets the same one.
        if latest == self._at and self._store.schemas.is_newest(self._schema):
            return False
        self._load(latest)
        return True

    def follow_schema(self) -> None:
        """Read the rows with the newest schema. ConfigError if it lacks a column that is looked up."""
        if not self._store.schemas.is_newest(self._schema):
            self._load(self._at)

    def move_to(self, snapshot: int | None, mark: int = 0) -> None:
        """Move to a snapshot; None is a table without snapshots.

        SnapshotMissing if it has expired, or if another one has its id now, which `mark` shows unless it is 0.
        """
        found = self._store.snapshots.get(snapshot) if snapshot else None
        if found is not None and mark and not found.has_mark(mark):
            raise SnapshotMissing(f"another snapshot has the id {found.id} now", table=self.name)
        if found is None or found != self._at:
            self._load(found)

    def _load(self, snapshot: Snapshot | None) -> None:
        schema = self._store.schema()
        _check(schema, self.columns, self.by, self.name)
        # The key may have other names now, and a column that is looked up the former name of one.
        if self._keys != schema.primary_keys:
            self._index, self._keys = self._new_index(schema), schema.primary_keys
        # Read with the newest schema: the schema of the snapshot may be older.
        self._index.load(schema, snapshot)
        self._schema, self._at = schema, snapshot

    def _new_index(self, schema: TableSchema) -> DimensionIndex:
        if schema.primary_keys and set(self.by) == set(schema.primary_keys) and self._partitions is None:
            return PrimaryKeyIndex(self._store, self.columns, self._local)
        return ColumnIndex(self._store, self.columns, self.by, self._local, self._partitions)

    def rows(self, keys: Sequence[pa.Array]) -> Matches:
        """Return the rows of these keys: one array for each column of `by`, all of one length.

        A key with a null, or with a value that the column cannot store, has no row.
        """
        named = dict(zip(self.by, keys, strict=True))
        types = {field.name: field.type for field in self._schema.select(self.by)}
        columns = [in_type(named[name], types[name], name, self.name) for name in self._index.key_columns]
        distinct, codes = distinct_keys(columns, [types[name] for name in self._index.key_columns])
        which, rows = self._index.find(distinct) if len(distinct[0]) else (np.zeros(0, np.int64), self._empty())
        numbers, places = rows_of_keys(codes, which, len(distinct[0]))
        return Matches(numbers, rows_at(rows, places), len(codes))

    def _empty(self) -> pa.Table:
        return pa.schema([pa.field(field.name, to_arrow(field.type)) for field in self.fields]).empty_table()


def _check(schema: TableSchema, columns: tuple[str, ...], by: tuple[str, ...], table: str) -> None:
    unknown = [name for name in (*columns, *by) if name not in schema.names]
    if unknown:
        raise no_column(unknown, schema.names, table)
    if not by:
        raise ConfigError(
            "a lookup needs at least one column to compare",
            table=table,
            hint="name the columns that are compared, usually the primary key",
        )
    if len(set(by)) < len(by):
        raise ConfigError(
            "a lookup compares a column of the table with two values",
            table=table,
            columns=", ".join(by),
            hint="name each column once, and compare the values with each other before",
        )
    for field in schema.select(by):
        if not isinstance(field.type, AtomicType) or field.type.root in {*_FLOATS, "VARIANT", "BLOB"}:
            raise ConfigError(
                f"rows cannot be looked up by {field.name}, which is {type_json(field.type)}",
                table=table,
                hint="use columns of integers, decimals, texts, bytes, dates or times",
            )
    if schema.primary_keys:
        merge_spec(schema)  # raises ConfigError if the table's merge options are not supported
