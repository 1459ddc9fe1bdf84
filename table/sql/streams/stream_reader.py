"""The rows of one SELECT over a stream: DuckDB runs it on the changes of one snapshot after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import INSERT, ROWKIND, RowKinds, is_retract
from penstock.table.lookup.dimension import Dimension
from penstock.table.read.change_stream import ChangeStream, SnapshotBatches
from penstock.table.read.update_pairs import packed_updates, whole_updates
from penstock.table.sql.queries.context import OpenCatalog
from penstock.table.sql.streams.changelog_kinds import Numbers, ResultKinds, kind_numbers
from penstock.table.sql.streams.lookup_joins import LookupJoin
from penstock.table.sql.streams.stream_lookups import StreamLookups
from penstock.table.sql.streams.stream_queries import StreamBranch
from penstock.table.sql.streams.stream_text import ROW, refused
from penstock.table.system.streamed import BINLOG
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import one_batch, rows_at
from penstock.table.values.names import alike_columns, refuse_alike


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of the result, the number of the changed row that each comes from, and their kinds."""

    batch: pa.RecordBatch
    numbers: Numbers
    kinds: RowKinds


class StreamReader:
    """One SELECT over the changes of a table.

    `t$audit_log` is read as the changes of t with their kinds as a column, so that each of them is a new row;
    `t$binlog` too, with the old and the new values of an update as lists in one row.
    """

    def __init__(self, opened: OpenCatalog, branch: StreamBranch) -> None:
        self.branch, self.session, source = branch, opened.session, branch.source
        self.table, self.name = source.table, source.name
        self.shows_kinds, self.packs_updates = source.system is not None, source.system == BINLOG
        self.lookups = StreamLookups(opened.session, branch.lookups)
        self.stop = Event()
        self._stream: ChangeStream | None = None
        self._target: int | None = None
        self._types = pa.schema([])

    @property
    def dimensions(self) -> list[tuple[LookupJoin, Dimension]]:
        """Return the dimensions of the lookup joins, opened."""
        return self.lookups.opened

    @property
    def stream(self) -> ChangeStream:
        """Return the stream, which `begin` opens."""
        assert self._stream is not None
        return self._stream

    def begin(self, position: int | None, *, until_caught_up: bool) -> None:
        """Open the stream after a snapshot, or where the options of the query let it start."""
        self._target = (self.table.store.snapshots.latest_id() or 0) if until_caught_up else None
        self._stream = ChangeStream(
            self.table.store, self.branch.source.options, position, self.branch.reads, self._condition()
        )

    def _condition(self) -> pc.Expression | None:
        """Return a condition that each row must match to be in the result, as DuckDB pushes it down; None: unknown."""
        # From lookups without rows DuckDB derives conditions that do not hold for the rows to come.
        # Nor do conditions on lists hold for their values, and those on the time hold for now only.
        if self.lookups.opened or self.packs_updates or self.branch.filter_moves:
            return None
        asked: list[pc.Expression | None] = []

        def no_rows(columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
            asked.append(where)
            return iter(())

        self.session.register_rows(self.branch.view, self._columns_of_view(), no_rows)
        list(self.session.prepared_batches(self.branch.text))
        return asked[0] if len(asked) == 1 else None

    def _columns_of_view(self) -> pa.Schema:
        fields = arrow_schema(self.table.definition.fields)
        if self.packs_updates:
            fields = pa.schema([pa.field(field.name, pa.list_(field.type)) for field in fields])
        if self.shows_kinds:
            fields = fields.insert(0, pa.field(ROWKIND, pa.string()))
        return fields.append(pa.field(ROW, pa.int64()))

    @property
    def is_done(self) -> bool:
        """Return whether everything is processed that was there at the start. An endless stream is never done."""
        position = self.stream.position
        return self._target is not None and position is not None and position >= self._target

    def poll(self) -> SnapshotBatches | None:
        """Return the next snapshot that is not processed yet."""
        return None if self.is_done else self.stream.poll()

    def columns(self) -> list[str]:
        """Return the names of the query's columns, without the number of the row."""
        schema, needed = self._columns_of_view(), self.branch.reads
        alike = alike_columns(schema.names)
        refuse_alike([name for name in alike if needed is None or name.lower() in needed], self.table.name)
        self.session.register(self.branch.view, schema.empty_table())
        self.lookups.register_empty()
        names, self._types = self.session.columns_of(self.branch.text)
        return names[1:]

    def columns_as(self, first: list[str]) -> list[str]:
        """Return the columns of the first SELECT, which is this one if they are empty; all SELECTs have as many."""
        columns = self.columns()
        first = first or columns
        if len(columns) != len(first):
            why = f"the first SELECT has {len(first)} columns, and this one {len(columns)}"
            raise refused(self.branch.place, why, "UNION ALL connects SELECTs with the same columns")
        return first

    @property
    def types(self) -> list[pa.DataType]:
        """Return the types of the query's columns, once their names are known."""
        return list(self._types.types[1:])

    def no_rows(self) -> list[pa.Array]:
        """Return the query's columns without rows, once their names are known."""
        return [pa.array([], type_) for type_ in self.types]

    def rows(self, batches: SnapshotBatches, query: str) -> Iterator[ChangedRows]:
        """Yield the rows of a query on the changes of a snapshot. It is the query of the branch, or one around it."""
        self.lookups.begin(batches.snapshot.id)
        for changed in whole_updates(batches.batches):
            batch = packed_updates(changed) if self.packs_updates else changed
            kinds = np.full(batch.num_rows, INSERT, np.int8) if self.shows_kinds else kind_numbers(batch.column(0))
            self.lookups.register(self._registered(pa.Table.from_batches([batch]), kinds), self.stop)
            result = pa.Table.from_batches(list(self.session.prepared_batches(query)) or [pa.record_batch({ROW: []})])
            if result.num_rows == 0:
                continue
            # DuckDB may return the rows in another order.
            rows = one_batch(rows_at(result, np.asarray(pc.sort_indices(result.column(0)), np.int64)))
            numbers = np.asarray(rows.column(0), np.int64) // 2
            keys = () if self.shows_kinds else self.table.primary_keys
            shown = pa.RecordBatch.from_arrays(rows.columns[1:], names=rows.schema.names[1:])
            yield ChangedRows(shown, numbers, ResultKinds(batch, kinds, keys).of(numbers))

    def _registered(self, changes: pa.Table, kinds: RowKinds) -> pa.Table:
        """Register the rows of changes, with their numbers, and return them."""
        rows = changes if self.shows_kinds else changes.select(range(1, changes.num_columns))
        numbers = pa.array(2 * np.arange(changes.num_rows, dtype=np.int64) + is_retract(kinds))
        numbered = rows.append_column(ROW, numbers)
        self.session.register(self.branch.view, numbered)
        return numbered
