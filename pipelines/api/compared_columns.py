"""The compared side of a verification: the columns of a table, and the hashes of their rows, summed by key range.

The types of a table can represent some values only after a conversion. `verify` applies the same conversion to the
source, so both sides are compared afterwards. It counts such values, so that a result "equal" states how many values it
does not cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError, SourceError
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.schema_evolution.row_versions import source_keys, with_versions
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import key_hashes
from penstock.table.handle import Table
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.values.types import AtomicType

INEXACT = "stored with fewer digits, or TINYINT(1) other than 0 and 1 read as true"
NULLS = "replaced by null (midnight if NOT NULL)"

HASH_RANGE = "hash of "  # the start of the name of a range where keys are not numbers
RANGES = 1024  # sums per table, if keys are not numbers
_WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
Int64s = npt.NDArray[np.int64]
Key = tuple[object, ...]
Rows = tuple[pa.RecordBatch, Int64s, Int64s]  # keys, hashes of rows, numbers of their ranges


class NotComparable(ConfigError):
    """The configuration of the table makes its rows differ from the rows of its source."""


class SourceAltered(SourceError):
    """The source was altered: its rows fit the table only after the next batch of the table."""


_BY_QUERY = "verify the tables that it is made from, and compare totals with  penstock sql"


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The compared part of a table: the columns that its sources have, except ignored ones, and computed keys."""

    layout: Layout
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    step: int | None  # width of the ranges, if the key is a single whole number
    marks_deletes: bool = False  # rows that are marked as deleted are not compared

    @classmethod
    def of(
        cls, table: Table, sources: Sequence[SourceSchema], mapping: PipelineMapping, ignored: Collection[str]
    ) -> ComparedColumns:
        layout = Layout.of(table.store.schema())
        schema = layout.schema
        engine = merge_engine(schema.typed)
        if not schema.primary_keys or not engine.newest_wins:
            raise NotComparable(
                "rows of this table do not correspond to rows of its source, so they cannot be compared",
                table=table.name,
                merge_engine=engine.name if schema.primary_keys else None,
                primary_key=None if schema.primary_keys else "none",
                hint=_BY_QUERY,
            )
        transforms = [mapping.table_rules.transform(source.database, source.table) for source in sources]
        if any(transform is not None and transform.filter_moves for transform in transforms):
            raise NotComparable(
                "which rows this table has depends on lookups, or on the time or the kind of a change",
                table=table.name,
                hint=_BY_QUERY,
            )
        own = {name for source in sources for name in mapping.compared_columns(source)}
        apart = {column.name for column in mapping.new_tables.computed} | {
            name for name, _ in mapping.new_tables.metadata
        }
        keys = source_keys(schema)
        # Other computed columns are not compared: they are null in rows that were written before they were added.
        computed = mapping.new_tables.repeatable(own - apart).intersection(keys)
        unknown = [name for name in keys if name not in (own - apart) | computed]
        if unknown:
            raise NotComparable(
                "the key of this table cannot be computed again from rows of its source",
                table=table.name,
                columns=", ".join(unknown),
                hint="name other tables in --tables; keys of source columns, or computed from them, are compared",
            )
        columns = tuple(name for name in schema.names if name in (own - apart - set(ignored)) | computed)
        # Ranges of numbers show a user where to look. Other keys are distributed by their hash.
        whole = len(keys) == 1 and _is_whole(layout, keys[0])
        marks = any(mapping.marks_deletes(source.database, source.table) for source in sources)
        return cls(layout, columns, keys, 4096 if whole else None, marks)

    def rows_of(self, change: ChangeBatch, mapping: PipelineMapping) -> tuple[Rows, int, Counter[str]]:
        change = mapping.compared(change)
        if mapping.keeps_versions(change.schema.database, change.schema.table):
            change = with_versions(change, 0, "")
        # Without messages and with any instant: computed and metadata columns, which depend on them, are not
        # compared.
        fitted = mapping.fit(_columns_of_table(change, self.layout, mapping), self.layout.schema, None, 0)
        if fitted is None:
            raise SourceAltered(
                "the source table was altered, and its rows do not fit the target table yet",
                table=f"{change.schema.database}.{change.schema.table}",
                hint="verify again after the next batch",
                retryable=True,
            )
        lost = +Counter({INEXACT: fitted.inexact, NULLS: fitted.nulled})
        return self.hashed(fitted.batch.rows), len(fitted.bad), lost

    def hashed(self, rows: pa.RecordBatch) -> Rows:
        keys = rows.select(list(self.keys))
        of_rows = key_hashes(self.layout, rows, self.columns).astype(np.int64) & 0xFFFFFFFF
        if self.step is not None:
            numbers = keys.column(0).to_numpy(zero_copy_only=False).astype(np.int64) // self.step
        else:
            numbers = key_hashes(self.layout, rows, self.keys).astype(np.int64) % RANGES
        return keys, of_rows, numbers

    def range_text(self, number: int) -> str:
        name = ", ".join(self.keys)
        if self.step is None:
            return f"{HASH_RANGE}({name}) is {number} of {RANGES}"
        return f"{name} from {number * self.step} to {(number + 1) * self.step - 1}"


def _is_whole(layout: Layout, name: str) -> bool:
    type_ = layout.schema.field(name).type
    return isinstance(type_, AtomicType) and type_.root in _WHOLE


def _columns_of_table(change: ChangeBatch, layout: Layout, mapping: PipelineMapping) -> ChangeBatch:
    """Return the change without columns that the table does not have (yet)."""
    there = set(layout.schema.names)
    kept = [place for place, field in enumerate(change.schema.fields) if mapping.rules.name(field.name) in there]
    if len(kept) == len(change.schema.fields):
        return change
    fields = tuple(change.schema.fields[place] for place in kept)
    return replace(change, schema=replace(change.schema, fields=fields), rows=change.rows.select(kept))


@dataclass(frozen=True, slots=True)
class KeyDiffers:
    """A key with a difference.

    `how`: missing in the table, extra in it, changed, doubled (several source rows have the key), or repeated (several
    rows of the table have it).
    """

    how: str
    key: Mapping[str, object]


class RangeSums:
    """The sums of one side by key range, and the keys of some ranges."""

    def __init__(self, compared: ComparedColumns) -> None:
        self._compared = compared
        self._sums: dict[int, int] = {}
        self._counts: Counter[int] = Counter()
        self.rows = 0
        self.found: dict[Key, int] = {}
        self.doubled: set[Key] = set()

    def add(self, rows: Rows) -> None:
        _, hashes, numbers = rows
        # Rows are summed by range in numpy; the loop below has one step per range of the batch, not per row.
        distinct, place = np.unique(numbers, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        # 48 bits per row: int64 does not overflow, because a batch has few rows per range. A range of whole numbers
        # has 4096 keys, a range of hashes 1/1024 of the batch.
        np.add.at(sums, place, hashes * 0x9E3779B1 & 0xFFFFFFFFFFFF)
        counts = np.bincount(place, minlength=len(distinct))
        for number, total, count in zip(distinct.tolist(), sums.tolist(), counts.tolist(), strict=True):
            self._sums[number] = self._sums.get(number, 0) + total
            self._counts[number] += count
        self.rows += len(hashes)

    def differs_from(self, other: RangeSums) -> Int64s:
        numbers = sorted(self._sums.keys() | other._sums.keys())
        return np.array([number for number in numbers if self._of(number) != other._of(number)], np.int64)

    def _of(self, number: int) -> tuple[int, int]:
        return self._sums.get(number, 0), self._counts[number]

    def find_keys(self, numbers: Int64s, every: Iterator[Rows]) -> None:
        for keys, hashes, of_row in every:
            # Keys become Python objects only in the ranges that differ.
            chosen = np.flatnonzero(np.isin(of_row, numbers))
            if len(chosen):
                lists = [column.take(pa.array(chosen)).to_pylist() for column in keys.columns]
                for key, hashed in zip(zip(*lists, strict=True), hashes[chosen].tolist(), strict=True):
                    if key in self.found:
                        self.doubled.add(key)
                    self.found[key] = hashed


def differing_keys(
    names: Sequence[str], source: RangeSums, table: RangeSums, most: int
) -> tuple[tuple[KeyDiffers, ...], dict[str, int]]:
    """Return the first keys of each kind of difference, and the number of keys per kind."""
    ours, theirs = table.found, source.found
    ways: dict[str, list[Key]] = {
        "missing": [key for key in theirs if key not in ours],
        "extra": [key for key in ours if key not in theirs],
        "changed": [key for key, hashed in theirs.items() if ours.get(key, hashed) != hashed],
        "doubled": list(source.doubled),
        # For example, a row has moved to another partition, and its old row is still there.
        "repeated": list(table.doubled),
    }
    shown = [
        KeyDiffers(how, dict(zip(names, key, strict=True)))
        for how, keys in ways.items()
        for key in sorted(keys, key=str)[:most]
    ]
    return tuple(shown), {how: len(keys) for how, keys in ways.items() if keys}
