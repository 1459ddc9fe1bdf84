"""Reading of splits: sorted runs are merged by key, deletes are dropped, the filter is applied.

Memory is bounded by one batch per run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.row_kinds import ROWKIND, kind_texts
from penstock.table.buckets.layout import Layout
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.deletion_vectors import decode_vectors
from penstock.table.files.file_reader import POSITION, FileReader, reads_columns_apart
from penstock.table.files.row_tracking import ROW_ID, is_tracked, row_ids, with_ids
from penstock.table.merge.bounded_merge import merge_runs
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.key_groups import KIND, visible_rows
from penstock.table.merge.read_mask import deciding_columns, may_mask, shown_rows
from penstock.table.merge.sorted_runs import Section, sections
from penstock.table.merge.spec import MergeSpec, required_columns
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.paths import external
from penstock.table.meta.store import TableStore
from penstock.table.options.scans import READ_BATCH_SIZE
from penstock.table.read.change_order import deleted_in_the_end, rows_of_keys
from penstock.table.read.column_conditions import column_conditions
from penstock.table.read.filter import RowFilter
from penstock.table.read.run_reader import MANY_ROWS, RunReader
from penstock.table.read.splits import Split, SplitKeys, VectorPlace
from penstock.table.schema.numbered_files import MAIN_BRANCH
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import read_out, rows_at
from penstock.table.values.types import Field

_ROWS_ALONE = 131_072


@dataclass(frozen=True, slots=True)
class SplitReader:
    """The reader of a scan's rows.

    It yields the `wanted` columns of rows that match `where`; `kinds` adds the row kind as first column.
    """

    store: TableStore
    layout: Layout
    wanted: tuple[Field, ...]
    where: RowFilter | None = None
    kinds: bool = False

    @property
    def batch_rows(self) -> int:
        """Return the largest number of rows in a batch (`read.batch-size`)."""
        return self.layout.schema.typed.get(READ_BATCH_SIZE, MANY_ROWS)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches."""
        schema = arrow_schema(self.wanted)
        return schema.insert(0, pa.field(ROWKIND, pa.string(), nullable=False)) if self.kinds else schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, merged by key unless the split is raw."""
        # A plan may contain splits of the fallback branch, whose schemas and files belong to that branch.
        if split.branch is not None and split.branch != (self.store.paths.branch or MAIN_BRANCH):
            yield from (self._as_own(batch) for batch in self._on_branch(split).read(split))
            return
        batches = self._raw(split) if split.raw or not self.layout.has_keys else self._merged(split)
        schema = self.schema
        for batch in batches:
            out = self._finished(batch, schema)
            if out.num_rows:
                yield out

    def _on_branch(self, split: Split) -> SplitReader:
        """Return the reader for a split of the fallback branch.

        Its columns have the same names, but its files have another layout.
        """
        store = self.store.on_branch(None if split.branch == MAIN_BRANCH else split.branch)
        schema = store.schemas.get(split.schema_id)
        wanted = schema.select(tuple(field.name for field in self.wanted))
        return replace(self, store=store, layout=Layout.of(schema), wanted=wanted)

    def _as_own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch under this table's schema: only the nullability may differ between the branches."""
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema) if batch.num_columns else batch

    def read_files(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield every row of the files without merging, with its kind, for reads of changes."""
        schema = self.schema
        for batch in self._rows_of_files(split):
            out = self._finished(batch, schema)
            if out.num_rows:
                yield out

    def _rows_of_files(self, split: Split) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self._columns()]
        if split.keys is SplitKeys.ALL:
            yield from self._unmerged(split, names)
            return
        keys = [field.name for field in self.layout.key_fields]
        deleted = deleted_in_the_end(self.layout, self._unmerged(split, keys))
        yield from rows_of_keys(self.layout, split.keys, deleted, self._unmerged(split, [*names, *keys]))

    def _unmerged(self, split: Split, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        fields = tuple(field for field in self.layout.schema.fields if field.name in names)
        reader = self._reader(split, fields, with_kind=self.layout.has_keys)
        for file in split.files:
            yield from reader.read(file)

    def read_positions(self, split: Split) -> Iterator[tuple[DataFile, pa.RecordBatch]]:
        """Yield the wanted columns of each file of a table without keys, and `_POSITION` of the rows as last column.

        With row-tracking.enabled, `_ROW_ID` is the first column.
        """
        tracked = is_tracked(self.layout.schema)
        names = [*(field.name for field in self.wanted), POSITION]
        for file, rows in self._placed(split, tracked=tracked):
            if not tracked:
                yield file, rows.select(names)
                continue
            ids = row_ids(rows.column(0), rows.column(POSITION), file)
            yield file, rows.set_column(0, ROW_ID.name, ids).select([ROW_ID.name, *names])

    def read_tracked(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table with row-tracking.enabled, with `_ROW_ID` and `_SEQUENCE_NUMBER` before them."""
        for file, rows in self._placed(split, tracked=True):
            yield with_ids(rows, file, rows.column(POSITION))

    def _placed(self, split: Split, *, tracked: bool) -> Iterator[tuple[DataFile, pa.RecordBatch]]:
        """Yield the rows of each file with their positions; `tracked` with the columns of row ids before them."""
        fields = self._columns()
        reader, conditions = replace(self._reader(split, fields), with_row_ids=tracked), self._conditions(fields)
        for file in split.files:
            vector = self._vector(file, split.vectors.get(file.name))
            for batch in reader.read(
                file, conditions=conditions, vector=vector, positions=True, batch_rows=self.batch_rows
            ):
                kept = batch if self.where is None else self.where.kept(batch)
                if kept.num_rows:
                    yield file, kept

    def _columns(self) -> tuple[Field, ...]:
        """Return the wanted columns and the columns that the filter names."""
        names = {field.name for field in self.wanted}
        if self.where is not None:
            names |= self.where.columns(self.layout.schema.names)
        return tuple(field for field in self.layout.schema.fields if field.name in names)

    def _conditions(self, fields: Sequence[Field]) -> list[ColumnCondition]:
        """Return the conditions of the filter on columns, by which readers skip row groups."""
        where = None if self.where is None else self.where.expression
        return [] if where is None else column_conditions(fields, arrow_schema(self.layout.schema.fields), where)

    def _reader(
        self, split: Split, fields: tuple[Field, ...], *, with_kind: bool = False, with_sequence: bool = False
    ) -> FileReader:
        return FileReader(
            self.store.storage,
            self.layout.path_of(self.store.paths, split.partition, split.bucket),
            self.store.schemas.get,
            fields,
            with_sequence=with_sequence,
            with_kind=with_kind,
            facts={"table": self.store.name},
        )

    def _raw(self, split: Split) -> Iterator[pa.RecordBatch]:
        fields = self._columns()
        plain = self._reader(split, fields)
        with_kind = self._reader(split, fields, with_kind=True)
        conditions = self._conditions(fields)
        # Nothing is held beside the batch, so it may be a row group as writers make them, if its columns are narrow.
        rows = self.layout.schema.typed.get(READ_BATCH_SIZE, _ROWS_ALONE)
        for file in split.files:
            vector = self._vector(file, split.vectors.get(file.name))
            # Row kinds are read only from files that may contain deletes.
            kinds = self.layout.has_keys and (self.kinds or file.delete_row_count != 0)
            reader = with_kind if kinds else plain
            for batch in reader.read(file, conditions=conditions, vector=vector, batch_rows=rows):
                yield visible_rows(batch) if kinds else batch

    def _merged(self, split: Split) -> Iterator[pa.RecordBatch]:
        spec = merge_spec(self.layout.schema)
        needed = set(required_columns(spec, [field.name for field in self._columns()]))
        read = tuple(field for field in self.layout.schema.fields if field.name in needed)
        for section in sections(split.files, self.layout.key_types):
            # When the order of the runs determines which row is newer, sequence numbers are not read.
            reader = self._reader(split, read, with_kind=True, with_sequence=not section.in_order)
            if len(section.runs) == 1:
                # Rows of several runs may be hidden by newer rows that fail the condition. Here there is only one run.
                conditions = self._conditions(read)
                for file in section.data_files:
                    batches = reader.read(file, conditions=conditions, batch_rows=self.batch_rows)
                    yield from map(visible_rows, batches)
                continue
            # Conditions on the key hold for all rows of a key or for no row of it.
            key = [condition for condition in self._conditions(read) if condition.column in spec.keys]
            if may_mask(spec, len(section.runs)) and reads_columns_apart(section.data_files):
                yield from self._masked(spec, split, section, key)
                continue
            plain = self._reader(split, read, with_kind=self.kinds, with_sequence=not section.in_order)
            runs = RunReader(reader, plain, self.batch_rows, key).sorted_runs(section)
            for table in merge_runs(spec, runs, drop_deletes=True, ordered=section.in_order):
                yield from table.to_batches()

    def _masked(
        self, spec: MergeSpec, split: Split, section: Section, conditions: Sequence[ColumnCondition]
    ) -> Iterator[pa.RecordBatch]:
        """First read the columns that decide which rows are visible, then the wanted columns, run by run.

        `conditions` concern key columns only. Both readers have these columns, so they return the same rows.
        """
        deciding = deciding_columns(spec)
        fields = tuple(field for field in self.layout.schema.fields if field.name in deciding)
        reader = self._reader(split, fields, with_kind=True, with_sequence=not section.in_order)
        plain = self._reader(split, fields, with_sequence=not section.in_order)
        # A count requests no columns, but rows are selected by their position in a batch, so one column at least is
        # read.
        # Fetching rows of a text copies it; of a dictionary array only the places of the values.
        wanted = replace(self._reader(split, self._columns() or fields, with_kind=self.kinds), keep_dictionaries=True)
        runs = RunReader(reader, plain, self.batch_rows, conditions).sorted_runs(section)
        columns = RunReader(wanted, wanted, self.batch_rows, conditions)
        for run, shown in zip(section.runs, shown_rows(spec, runs), strict=True):
            start = 0
            for batch in columns.batches(run):
                # Rows are selected by index: filtering by mask takes a quarter longer.
                places = np.flatnonzero(shown.between(start, start + batch.num_rows))
                start += batch.num_rows
                if len(places):
                    yield read_out(batch if len(places) == batch.num_rows else rows_at(batch, places))

    def _vector(self, file: DataFile, place: VectorPlace | None) -> npt.NDArray[np.int64] | None:
        """Return the deleted positions of a file.

        Only the vector's range is decoded, since an index file may contain the vectors of all files of the bucket.
        """
        if place is None:
            return None
        partition, bucket = place.bucket
        folder = self.layout.partition_dir(partition)
        path = external(place.external_path) or self.store.paths.index_file(place.index_file, folder, bucket)
        return decode_vectors(self.store.storage.read(path), [place.range], path)[file.name]

    def finished_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return, from complete rows with their kinds, the rows and columns this reader yields."""
        if self.where is not None:
            batch = self.where.kept(batch)
        return batch.select(self.schema.names)

    def _finished(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if self.where is not None:
            batch = self.where.kept(batch)
        columns = [batch.column(field.name) for field in self.wanted]
        if self.kinds:
            columns.insert(0, _kind_texts(batch))
        if not columns:
            # A batch that is built from no columns has no rows. From a struct array it keeps their number, which
            # `count` adds up.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kind_texts(batch: pa.RecordBatch) -> pa.Array:
    place = batch.schema.get_field_index(KIND)
    kinds = pa.array(np.zeros(batch.num_rows, np.int8)) if place < 0 else batch.column(place)
    return kind_texts(kinds)
