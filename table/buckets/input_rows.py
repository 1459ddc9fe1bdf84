"""Conversion of a caller's rows to the table: columns by name, types, default values and row kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, KIND_TEXTS, RowKinds, is_retract
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.member_nulls import (
    NullMember,
    has_required_members,
    with_optional_members,
    with_required_members,
)
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.incoming_kinds import check_retracts, kept_rows, row_kinds
from penstock.table.merge.spec import MergeSpec
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import bounded
from penstock.table.values.casts import cast_array
from penstock.table.values.nested_numbers import with_exact_numbers
from penstock.table.values.partition_text import no_folder
from penstock.table.values.types import STRING, AtomicType, Field
from penstock.table.values.variants import NoVariant, variants_of_json


class RowRefused(ConfigError):
    """A row that cannot be stored as it is. Nothing of its batch was written."""


def kinds_of(kinds: object, rows: int) -> RowKinds:
    """Return row kinds given as texts or as numbers 0 to 3; all +I if None."""
    if kinds is None:
        return np.zeros(rows, np.int8)
    if isinstance(kinds, np.ndarray) and kinds.dtype == np.int8:
        numbers = kinds
    else:
        given = kinds if isinstance(kinds, pa.Array | pa.ChunkedArray) else pa.array(list(_sequence(kinds)))
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if pa.types.is_string(given.type) or pa.types.is_large_string(given.type):
            # The position in KIND_TEXTS is the number of the kind. Unknown texts become -1, which is refused below.
            given = pc.fill_null(pc.index_in(given, pa.array(KIND_TEXTS, given.type)), -1)
        numbers = _kind_numbers(given)
    if len(numbers) != rows:
        raise RowRefused(f"{len(numbers)} row kinds for {rows} rows", hint="pass one row kind per row")
    if rows and (numbers.min() < INSERT or numbers.max() > DELETE):
        raise RowRefused("unknown row kind", hint="row kinds are +I, -U, +U, -D or 0 to 3")
    return numbers


def _kind_numbers(given: pa.Array) -> RowKinds:
    try:
        return np.asarray(given.cast(pa.int8()).fill_null(-1).to_numpy(zero_copy_only=False), np.int8)
    except pa.ArrowException as reason:
        raise RowRefused(f"unknown row kind: {reason}", hint="row kinds are +I, -U, +U, -D or 0 to 3") from reason


def _sequence(kinds: object) -> Sequence[object]:
    if isinstance(kinds, str):
        raise RowRefused("kinds must be a list of row kinds, not a text", hint=f"write kinds=[{kinds!r}]")
    if isinstance(kinds, Sequence | np.ndarray):
        return list(kinds)
    raise RowRefused(f"kinds cannot be a {type(kinds).__name__}", hint="pass a list of texts, or an array")


@dataclass(frozen=True, slots=True)
class RowRules:
    """The requirements of a table for the rows written to it. `merge` is None for tables without a key."""

    schema: TableSchema
    merge: MergeSpec | None

    @classmethod
    def of(cls, schema: TableSchema) -> RowRules:
        """Return the rules of a schema."""
        return cls(schema, merge_spec(schema) if schema.primary_keys else None)

    def fit(self, data: pa.Table | pa.RecordBatch, kinds: object) -> list[tuple[pa.RecordBatch, RowKinds]]:
        """Return the rows with the table's columns and types, and their kinds, without the rows the table ignores.

        They are one batch, or several if they have more than `MOST_BYTES`.
        """
        batches = _batches(data)
        numbers = kinds_of(kinds, data.num_rows)
        ends = np.cumsum([len(batch) for batch in batches])
        parts = np.split(numbers, ends[:-1])
        return [self._fitted(batch, part) for batch, part in zip(batches, parts, strict=True)]

    def _fitted(self, batch: pa.RecordBatch, numbers: RowKinds) -> tuple[pa.RecordBatch, RowKinds]:
        self._refuse_unclear(batch)
        # In the table's order and by name: callers may pass columns in any order and leave out those that have a
        # default.
        columns = [self._column(batch, field) for field in self.schema.fields]
        fitted = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.schema.fields))
        if self.merge is None:
            if is_retract(numbers).any():
                raise RowRefused(
                    "an append table cannot store -U and -D rows", hint="create the table with a primary key"
                )
        else:
            numbers = row_kinds(self.merge, pa.Table.from_batches([fitted]), numbers)
            kept = kept_rows(self.merge, numbers)
            if kept is not None:
                fitted, numbers = fitted.filter(pa.array(kept)), numbers[kept]
            check_retracts(self.merge, numbers)
        # After the ignored rows are gone: a delete that is ignored may lack values.
        self._refuse_nulls(fitted)
        return fitted, numbers

    def _column(self, batch: pa.RecordBatch, field: Field) -> pa.Array:
        place = batch.schema.get_field_index(field.name)
        target = arrow_schema([field]).field(0).type
        column = pa.nulls(batch.num_rows, target) if place < 0 else _fitting(batch.column(place), target, field)
        if target == pa.timestamp("s") and column.null_count < len(column):
            _refuse_far_seconds(column, field)
        # As in Java, defaults apply when rows are written, never when they are read.
        if field.default is not None and column.null_count:
            default = cast_array(pa.array([field.default], pa.string()), STRING, field.type)[0]
            column = pc.fill_null(column, default)
        return column

    def _refuse_unclear(self, batch: pa.RecordBatch) -> None:
        known = set(self.schema.names)
        unknown = [name for name in batch.schema.names if name not in known]
        if unknown:
            raise RowRefused(
                f"the table has no column {', '.join(map(repr, unknown))}",
                columns=", ".join(self.schema.names),
                hint="add it with catalog.alter_table(..., [AddColumn(...)]), or drop it from the data",
            )
        # Arrow finds no column by a name that two columns have, so both would be null.
        if twice := [name for name, times in Counter(batch.schema.names).items() if times > 1]:
            raise RowRefused(
                f"the rows have several columns named {', '.join(map(repr, twice))}", hint="rename or drop all but one"
            )

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for place, field in enumerate(self.schema.fields):
            if not field.type.nullable and batch.column(place).null_count:
                row = pc.index(pc.is_null(batch.column(place)), True).as_py()
                raise RowRefused(
                    f"column {field.name} is NOT NULL, but a row contains null",
                    row=row,
                    paimon_message=f"Cannot write null to non-null column({field.name})",
                    hint="set a value: a key is never null"
                    if field.name in self.schema.primary_keys
                    else "set a value, or ALTER TABLE t ALTER COLUMN c DROP NOT NULL",
                )


def _refuse_far_seconds(column: pa.Array, field: Field) -> None:
    """Raise RowRefused for a TIMESTAMP(0) that exceeds the range of milliseconds, in which Paimon stores it."""
    try:
        pc.cast(column, pa.timestamp("ms"))
    except pa.ArrowInvalid as reason:
        raise RowRefused(
            f"column {field.name!r} contains a time outside of the range of {field.type}",
            hint="correct the value, or set it to null",
        ) from reason


def refuse_folders(store: TableStore, layout: Layout, batch: pa.RecordBatch) -> None:
    """Raise RowRefused for the whole batch, before any file is begun, if a partition value cannot be a folder name."""
    longest = store.storage.longest_name
    for field in layout.partition_fields:
        column = batch.column(field.name)
        found = no_folder(column, field, longest)
        if found is not None:
            row = int(found[0][0])
            raise RowRefused(
                found[1],
                table=store.name,
                column=field.name,
                row=row,
                # By its bytes, which may not be valid UTF-8.
                value=repr(column[row].cast(pa.binary()).as_py()[:80].decode("utf-8", "backslashreplace")),
                hint="choose shorter partition values: the beginning of the text, or a hash of it",
            )


def _batches(data: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        return list(bounded(data))
    if not isinstance(data, pa.Table):
        raise RowRefused(
            f"rows must be a pyarrow Table or RecordBatch, not a {type(data).__name__}", hint=_as_arrow(data)
        )
    # A table without rows may have no batch at all.
    batches = [batch for part in bounded(data) for batch in part.combine_chunks().to_batches()]
    return batches or [pa.RecordBatch.from_pylist([], schema=data.schema)]


def _as_arrow(data: object) -> str:
    """Return a hint how the caller can make rows out of the passed object."""
    if hasattr(data, "__arrow_c_stream__"):
        return "write pyarrow.table(rows)"
    if isinstance(data, Mapping):
        return "write pyarrow.table(rows), with a list for each column"
    return "write pyarrow.Table.from_pylist(rows), with a dict for each row"


def _members_lost(source: pa.DataType, target: pa.DataType) -> Iterator[str]:
    """Yield the names of struct members that a cast would drop silently."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        for member in source:
            place = target.get_field_index(member.name)
            if place < 0:
                yield member.name
            else:
                yield from _members_lost(member.type, target.field(place).type)
    elif pa.types.is_map(source) and pa.types.is_map(target):
        yield from _members_lost(source.item_type, target.item_type)
    elif hasattr(source, "value_type") and pa.types.is_list(target):
        yield from _members_lost(source.value_type, target.value_type)


def _fitting(column: pa.Array, target: pa.DataType, field: Field) -> pa.Array:
    if not has_required_members(target):
        return column if column.type == target else _cast(column, target, field)
    optional = with_optional_members(target)
    try:
        return with_required_members(_cast(column, optional, field), target, field.name)
    except NullMember as null:
        raise RowRefused(
            f"{null.path} is NOT NULL, but a row contains null",
            column=field.name,
            hint="set a value in every row, or make the member nullable",
        ) from null


def _cast(column: pa.Array, target: pa.DataType, field: Field) -> pa.Array:
    if lost := list(_members_lost(column.type, target)):
        raise RowRefused(
            f"column {field.name!r} has no member {', '.join(map(repr, lost))}",
            given=str(column.type),
            wanted=str(target),
            hint="add it to the column's type, or drop it from the data",
        )
    try:
        if isinstance(field.type, AtomicType) and field.type.root == "VARIANT" and pa.types.is_string(column.type):
            return variants_of_json(column)
        if column.offset and (pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)):
            # Arrow casts no slice that ends beyond 2 GiB in the memory of its array. `take` copies it.
            column = column.take(pa.array(np.arange(len(column))))
        return pc.cast(with_exact_numbers(column, target), target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, NoVariant) as reason:
        raise RowRefused(
            f"column {field.name!r} does not fit: {reason}",
            given=str(column.type),
            wanted=str(target),
            hint="correct the values, or ALTER TABLE t ALTER COLUMN c TYPE ... to a type that contains them",
        ) from reason
