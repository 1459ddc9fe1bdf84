"""A read of a table: planned in one process, executed in others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.pipelines.spark.versions import Feature
from penstock.pipelines.spark_source.row_metadata import (
    NAMES,
    OF_FILES,
    check_readable,
    placed_rows,
    with_metadata,
)
from penstock.pipelines.spark_source.spark_api import HAS_TIMES
from penstock.pipelines.spark_source.spark_options import travel_options
from penstock.pipelines.spark_source.table_place import TablePlace
from penstock.row_kinds import ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.errors import SnapshotMissing
from penstock.table.meta.store import TableStore
from penstock.table.operations.placed_rows import FILE, ROW
from penstock.table.read.changes import between_splits, read_between, snapshot_or_changelog
from penstock.table.read.filter import RowFilter
from penstock.table.read.scan import Scan
from penstock.table.read.snapshot_diff import overwritten
from penstock.table.read.snapshot_range import SnapshotRange
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.schema.option_changes import refuse_other_rules
from penstock.table.schema.table_schema import TableSchema
from penstock.table.system.tables import SystemTable
from penstock.table.values.arrow_types import arrow_schema

# The second name of a column for UPDATE and MERGE in Spark, whose first name then has the new value.
OLD = "_old_"


class PieceRead(StrEnum):
    """How a piece is read."""

    STATE = "rows of the table"
    FILES = "rows of files without merging"
    DIFFERENCE = "rows that differ between two snapshots"
    OVERWRITTEN = "rows that an overwrite removed and added"
    SYSTEM = "a system table"


@dataclass(frozen=True, slots=True)
class Piece:
    """One task's part of a read. Contains the schema's id, so that a task never uses a newer schema."""

    way: PieceRead
    schema_id: int = 0
    split: Split | None = None
    snapshot: int = 0


@dataclass(frozen=True, slots=True)
class TableRead:
    """A read of a table.

    `columns` is None for all columns. Row kinds are read if the options ask for them or changes are read. With
    `placed`, the file of each row and its position in the file are read too: UPDATE, DELETE and MERGE change rows
    without a key by them. `metadata` are metadata columns.
    """

    place: TablePlace
    columns: tuple[str, ...] | None = None
    where: pc.Expression | None = None
    placed: bool = False
    metadata: tuple[str, ...] = ()

    @classmethod
    def of(cls, place: TablePlace, columns: tuple[str, ...] | None = None) -> TableRead:
        if columns is None:
            return cls(place)
        # Only the catalog asks for places; in a table by path, such names are columns.
        places = {FILE, ROW} & set(columns) if place.catalog is not None else set()
        metadata = _metadata(place, columns)
        others = {ROWKIND, *places, *metadata}
        named = tuple(name for name in columns if name not in others)
        if place.catalog is not None and place.system is None and any(name.startswith(OLD) for name in named):
            # As with metadata columns, the table may have a column with such a name.
            own = set(place.store().schema().names)
            named = tuple(name if name in own else name.removeprefix(OLD) for name in named)
        named = tuple(dict.fromkeys(named))
        return cls(place, named, placed=bool(places) or bool(OF_FILES & set(metadata)), metadata=metadata)

    @property
    def schema(self) -> pa.Schema:
        """The table's current schema, with the column of row kinds if it is shown."""
        store = self.place.store()
        if self.place.system is not None:
            return SystemTable(store, self.place.system).schema
        scan = self.scan(store)
        return self.reader(store, _schema_of(store, scan), kinds=self._shows_kinds(scan)).schema

    @property
    def filtered(self) -> pa.Schema:
        """The columns that filters may refer to."""
        store = self.place.store()
        if self.place.system is not None:
            return SystemTable(store, self.place.system).schema
        return arrow_schema(self.scan(store).table_schema().fields)

    def pieces(self) -> list[Piece]:
        store = self.place.store()
        if self.place.system is not None:
            return [Piece(PieceRead.SYSTEM)]
        scan = self._planned(store)
        schema = scan.table_schema()
        check_readable(self.metadata, schema, store.name, kinds=self._shows_kinds(scan))
        if scan.between is not None:
            splits = between_splits(store, scan.between, Layout.of(schema))
            if splits is None:
                return [Piece(PieceRead.DIFFERENCE, schema.id)]
            return [Piece(PieceRead.FILES, schema.id, split) for split in splits]
        return [Piece(PieceRead.STATE, schema.id, split) for split in scan.plan().splits]

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece. In memory: one batch per sorted run."""
        store = self.place.store()
        if piece.way is PieceRead.SYSTEM:
            options = travel_options(self.place.options)
            yield from SystemTable(store, self.place.system or "").scan(where=self.where, options=options).to_batches()
            return
        scan = self.scan(store)
        # Rows that are read without merging include old rows and deletes, which only their kinds distinguish from
        # new rows.
        kinds = self._shows_kinds(scan) or piece.way in {PieceRead.FILES, PieceRead.OVERWRITTEN}
        schema = store.schemas.get(piece.schema_id)
        if self.placed and piece.split is not None:
            yield from placed_rows(self.reader(store, schema, kinds=False), piece.split, self.metadata)
            return
        reader = self.reader(store, schema, kinds=kinds)
        for batch in read_piece(store, reader, piece, scan):
            yield batch if piece.split is None else with_metadata(batch, self.metadata, reader, piece.split)

    def reader(self, store: TableStore, schema: TableSchema, *, kinds: bool) -> SplitReader:
        names = schema.names if self.columns is None else self.columns
        unknown = [name for name in names if name not in schema.names]
        if unknown:
            raise ConfigError(
                f"the table has no column {', '.join(map(repr, unknown))}",
                table=store.name,
                columns=", ".join(schema.names),
                hint="restart the query to read the table with its present columns",
            )
        if (self.placed or self.metadata) and not names:
            # A batch without columns would have no rows, whose positions and metadata are asked for.
            names = schema.names[:1]
        where = None if self.where is None else RowFilter(self.where, store.name)
        return SplitReader(store, Layout.of(schema), schema.select(names), where, kinds)

    def scan(self, store: TableStore) -> Scan:
        """Return the scan of the table."""
        refuse_other_rules(store.schema(), self.place.table_options)
        return Scan.of(store, where=self.where, options=self.place.table_options)

    def _planned(self, store: TableStore) -> Scan:
        """Return the scan at the snapshot that its statement reads. SnapshotMissing if the snapshot has expired."""
        scan, planned = self.scan(store), self.place.planned_snapshot
        # In an empty table there is nothing to find again.
        if not planned or scan.travel.travels or scan.between is not None:
            return scan
        snapshot = store.snapshots.find(planned)
        if snapshot is None:
            raise SnapshotMissing(
                f"snapshot {planned}, which the statement reads, has expired",
                table=store.name,
                hint="run the statement again, or keep snapshots longer with snapshot.time-retained",
            )
        return replace(scan, snapshot=snapshot)

    def _shows_kinds(self, scan: Scan) -> bool:
        return self.place.has_kinds or scan.between is not None


def _schema_of(store: TableStore, scan: Scan) -> TableSchema:
    """Return the schema of the read.

    A stream may begin at a time before the first snapshot: it reads all snapshots with the table's current columns. A
    batch read reports during planning that no snapshot is that old.
    """
    try:
        return scan.table_schema()
    except SnapshotMissing:
        if scan.travel.millis is None:
            raise
        return store.schema()


def read_piece(store: TableStore, reader: SplitReader, piece: Piece, scan: Scan) -> Iterator[pa.RecordBatch]:
    match piece:
        case Piece(way=PieceRead.STATE, split=Split() as split):
            yield from reader.read(split)
        case Piece(way=PieceRead.FILES, split=Split() as split):
            yield from reader.read_files(split)
        case Piece(way=PieceRead.DIFFERENCE):
            yield from read_between(store, _between(scan), reader)
        case Piece(way=PieceRead.OVERWRITTEN):
            yield from overwritten(store, reader, snapshot_or_changelog(store, piece.snapshot))


def _between(scan: Scan) -> SnapshotRange:
    if scan.between is None:
        raise ConfigError("a read of differences needs a start and an end", hint="set incremental-between")
    return scan.between


def spark_schema(schema: pa.Schema) -> StructType:
    if not HAS_TIMES and any(pa.types.is_time(field.type) for field in schema):
        Feature.TIMES.require()
    return from_arrow_schema(pa.schema([_known(field) for field in schema]), prefer_timestamp_ntz=True)


def _known(field: pa.Field) -> pa.Field:
    # Spark knows times of the day in nanoseconds only.
    return field.with_type(pa.time64("ns")) if pa.types.is_time32(field.type) else field


def shaped(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns of `target`. Only times change their values: Spark has no nanoseconds."""
    known = set(batch.schema.names)
    # A column for old values is read from the column that it belongs to.
    columns = [batch.column(name if name in known else name.removeprefix(OLD)) for name in target.names]
    # A safe cast would refuse nanoseconds that are not whole microseconds.
    return pa.RecordBatch.from_arrays(columns, names=target.names).cast(target, safe=False)


def _metadata(place: TablePlace, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metadata columns of a read. Only reads by a catalog have them."""
    named = [name for name in dict.fromkeys(columns) if name in NAMES]
    if not named or place.catalog is None or place.system is not None:
        return ()
    # If the table itself has a column of this name, that column is read.
    own = set(place.store().schema().names)
    return tuple(name for name in named if name not in own)


def new_rows(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return only the new rows if `target` has no row kinds.

    Without a kind, the other rows could not be distinguished from them.
    """
    if ROWKIND not in batch.schema.names or ROWKIND in target.names:
        return batch
    return batch.filter(pc.is_in(batch.column(ROWKIND), pa.array(["+I", "+U"])))
