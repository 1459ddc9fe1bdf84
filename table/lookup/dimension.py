"""A table whose rows are looked up by key: the dimension of a lookup join.

A `Dimension` is at one snapshot until it is refreshed, so that the rows of a batch come from one state of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.compaction.lookup_store import LookupStore, lookup_folder
from penstock.table.errors import SnapshotMissing
from penstock.table.lookup.by_columns import ColumnIndex
from penstock.table.lookup.by_key import PrimaryKeyIndex
from penstock.table.lookup.matches import DimensionIndex, Matches
from penstock.table.lookup.partitions import LookupPartitions
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.indexes import LOOKUP_CACHE_MAX_DISK_SIZE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import Ints, rows_at
from penstock.table.values.names import no_column
from penstock.table.values.sort_keys import sort_keys
from penstock.table.values.types import AtomicType, DataType, Field, type_json

_DIGITS = Context(prec=76)  # of decimal256, which has all values of both sides of a comparison
_FLOATS = ("FLOAT", "DOUBLE")
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")


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
        index: DimensionIndex,
        partitions: LookupPartitions | None = None,
    ) -> None:
        self._store, self.columns, self.by, self._index, self._partitions = store, columns, by, index, partitions
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
        by_key = bool(schema.primary_keys) and set(key) == set(schema.primary_keys) and partitions is None
        if partitions is not None:
            partitions.check(schema, store.name)
        index = PrimaryKeyIndex(store, wanted, local) if by_key else ColumnIndex(store, wanted, key, local, partitions)
        dimension = cls(store, wanted, key, index, partitions)
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
        one = self._partitions is not None and self._partitions.is_one(self._schema)
        keys = set(self._schema.primary_keys) - (set(self._schema.partition_keys) if one else set())
        return bool(self._schema.primary_keys) and keys <= set(self.by)

    @property
    def place(self) -> tuple[int, int]:
        """Return the snapshot of the rows and its mark, as `move_to` takes them; zeros without a snapshot."""
        return (0, 0) if self._at is None else (self._at.id, self._at.mark)

    def refresh(self) -> bool:
        """Move to the newest snapshot of the table. Return whether it is another one."""
        latest = self._store.snapshots.latest()
        # The id alone does not say it: after a rollback, another snapshot gets the same one.
        if latest == self._at:
            return False
        self._load(latest)
        return True

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
        # Read with the newest schema: the schema of the snapshot may be older.
        self._index.load(schema, snapshot)
        self._schema, self._at = schema, snapshot

    def rows(self, keys: Sequence[pa.Array]) -> Matches:
        """Return the rows of these keys: one array for each column of `by`, all of one length.

        A key with a null, or with a value that the column cannot store, has no row.
        """
        named = dict(zip(self.by, keys, strict=True))
        types = {field.name: field.type for field in self._schema.select(self.by)}
        columns = [_in_type(named[name], types[name], name, self.name) for name in self._index.key_columns]
        distinct, codes = _distinct(columns, [types[name] for name in self._index.key_columns])
        which, rows = self._index.find(distinct) if len(distinct[0]) else (np.zeros(0, np.int64), self._empty())
        numbers, places = _spread(codes, which, len(distinct[0]))
        return Matches(numbers, rows_at(rows, places), len(codes))

    def _empty(self) -> pa.Table:
        return pa.schema([pa.field(field.name, to_arrow(field.type)) for field in self.fields]).empty_table()


def _check(schema: TableSchema, columns: tuple[str, ...], by: tuple[str, ...], table: str) -> None:
    unknown = [name for name in (*columns, *by) if name not in schema.names]
    if unknown:
        raise no_column(unknown, schema.names, table)
    if not by:
        raise ConfigError("a lookup needs at least one column to compare", table=table)
    for field in schema.select(by):
        if not isinstance(field.type, AtomicType) or field.type.root in {*_FLOATS, "VARIANT", "BLOB"}:
            raise ConfigError(
                f"rows cannot be looked up by {field.name}, which is {type_json(field.type)}",
                table=table,
                hint="use columns of integers, decimals, texts, bytes, dates or times",
            )
    if schema.primary_keys:
        merge_spec(schema)  # raises ConfigError if the table's merge options are not supported


def _in_type(values: pa.Array, type_: DataType, column: str, table: str) -> pa.Array:
    """Return the values in the type of a column; null where the column cannot have such a value."""
    arrow = to_arrow(type_)
    if values.type == arrow:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), arrow)
    if not _comparable(values.type, type_):
        raise ConfigError(
            f"{values.type} cannot be compared with {column}, which is {type_json(type_)}",
            table=table,
            hint="cast the value in the projection",
        )
    # Unsafe casts, so that values that the column cannot have do not fail the batch: they become nulls.
    if pa.types.is_decimal(arrow):
        return _as_decimals(values, arrow)
    cast = pc.cast(values, arrow, safe=False)
    return pc.if_else(pc.equal(pc.cast(cast, values.type, safe=False), values), cast, pa.scalar(None, arrow))


def _as_decimals(values: pa.Array, type_: pa.Decimal128Type) -> pa.Array:
    """Return integers or decimals in a decimal type; null for numbers with more digits than the type."""
    scale = type_.scale
    wide = pa.decimal256(76, max(scale, values.type.scale if pa.types.is_decimal(values.type) else 0))
    exact = pc.cast(values, wide)
    largest = pa.scalar(Decimal(10**type_.precision - 1).scaleb(-scale, _DIGITS), wide)
    inside = pc.if_else(pc.less_equal(pc.abs(exact), largest), exact, pa.scalar(None, wide))
    cut = pc.cast(inside, pa.decimal256(76, scale), safe=False)
    kept = pc.if_else(pc.equal(pc.cast(cut, wide), inside), cut, pa.scalar(None, cut.type))
    return pc.cast(kept, type_)


def _comparable(given: pa.DataType, type_: DataType) -> bool:
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root in _TEXTS:
        return bool(pa.types.is_string(given) or pa.types.is_large_string(given))
    if root in _BYTES:
        return bool(pa.types.is_binary(given) or pa.types.is_large_binary(given))
    if root in _INTEGERS:
        return bool(pa.types.is_integer(given))
    if root == "DECIMAL":
        return bool(pa.types.is_integer(given) or pa.types.is_decimal(given))
    if root.startswith("TIMESTAMP"):
        return bool(pa.types.is_timestamp(given))
    return False


def _distinct(columns: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[list[pa.Array], Ints]:
    """Return the distinct keys in key order, and the number of each row's key among them; -1 for a key with a null."""
    if len(columns) == 1:
        return _distinct_values(columns[0])
    valid = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid)
    chosen = [column.take(pa.array(rows)) for column in columns] if len(rows) < len(valid) else list(columns)
    _, first, inverse = np.unique(sort_keys(chosen, types), return_index=True, return_inverse=True)
    codes = np.full(len(valid), -1, np.int64)
    codes[rows] = inverse
    return [column.take(pa.array(first)) for column in chosen], codes


def _distinct_values(column: pa.Array) -> tuple[list[pa.Array], Ints]:
    if pa.types.is_integer(column.type) and not column.null_count:
        return _distinct_numbers(column)
    encoded = pc.dictionary_encode(column)
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1  # the place that nulls point to
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return [encoded.dictionary.take(pa.array(order))], rank[codes]


def _distinct_numbers(column: pa.Array) -> tuple[list[pa.Array], Ints]:
    # One sort is a fifth of the work of a hash table and a sort of its keys, where most keys differ.
    values = column.to_numpy(zero_copy_only=False)
    order = np.argsort(values)
    ordered = values[order]
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    codes = np.empty(len(ordered), np.int64)
    codes[order] = np.cumsum(is_first) - 1
    return [pa.array(ordered[is_first], column.type)], codes


def _spread(codes: Ints, which: Ints, distinct: int) -> tuple[Ints, Ints]:
    """Return the number of the key and the place of the row, for each row that each key has."""
    counts = np.bincount(which, minlength=distinct) if distinct else np.zeros(0, np.int64)
    known = np.flatnonzero(codes >= 0)
    of_key = counts[codes[known]]
    numbers = np.repeat(known, of_key)
    if len(counts) == 0 or counts.max() <= 1:
        places = np.full(distinct, -1, np.int64)
        places[which] = np.arange(len(which))
        return numbers, places[codes[numbers]]
    starts = (np.cumsum(counts) - counts)[codes[known]]
    before = np.cumsum(of_key) - of_key
    return numbers, np.repeat(starts - before, of_key) + np.arange(len(numbers))
