"""Verifies that a table equals its source, while both continue to change.

They are compared at the binlog position that the table has reached.

Every chunk of the source is read as of that position, every row of both sides is hashed, and the hashes are summed by
key range. Ranges whose sums differ are read again and compared key by key. In memory: one chunk, one batch, the sums,
and the keys of the ranges that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError, SourceError
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.ingest.source import ComparableSource, ComparisonPoint, Offsets
from penstock.pipelines.api.lossy_values import NULLS, lossy_values
from penstock.pipelines.ledger.batch_identity import PIPELINE, range_of
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import key_hashes
from penstock.table.handle import Table
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableMissing
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.types import AtomicType

HASH_RANGE = "hash of "  # the start of the name of a range where keys are not numbers
RANGES = 1024  # sums per table, if keys are not numbers
_WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}

Int64s = npt.NDArray[np.int64]
Key = tuple[object, ...]
Rows = tuple[pa.RecordBatch, Int64s, Int64s]  # keys, hashes of rows, numbers of their ranges


class NotComparable(ConfigError):
    """The table's rows, by its configuration, are not those of its source."""


class SourceAltered(SourceError):
    """The source was altered, and its rows do not fit the table before the table's next batch."""


@dataclass(frozen=True, slots=True)
class KeyDiffers:
    """A key with a difference.

    `how`: missing in the table, extra in it, changed, or doubled (several source rows have the key).
    """

    how: str
    key: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """The result for one table.

    `ranges` are the differing key ranges as readable text; `keys` lists the first differing keys, `counts` counts all.

    `not_compared` gives the reason why a table was not compared. `unfit` counts the source's bad records, which no
    table accepts and which are not compared.
    """

    table: str
    position: str
    snapshot: int | None
    source_rows: int
    table_rows: int
    ranges: tuple[str, ...] = ()
    keys: tuple[KeyDiffers, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    not_compared: str | None = None
    unfit: int = 0
    # values that both sides represent differently from the source
    lossy: Mapping[str, int] = field(default_factory=dict)
    is_early: bool = False  # it can be compared after the next batches

    @property
    def is_equal(self) -> bool:
        return not self.ranges and self.not_compared is None

    @property
    def differs(self) -> bool:
        return bool(self.ranges)


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification of a pipeline's tables.

    `reached` is the pipeline's position according to the checkpoint, or None if it is unknown: the tables' snapshots
    then provide it.
    """

    pipeline: str
    source: ComparableSource
    shape: PipelineMapping
    reached: Offsets | None = None
    most_keys: int = 20
    ignored: frozenset[str] = frozenset()
    parked: Mapping[str, str] = field(default_factory=dict)  # tables that lack batches, and why

    def verdicts(self, wanted: Collection[str] = ()) -> Iterator[TableVerdict]:
        """Yield a verdict for each table with sources, or for the wanted ones, named `database.table` or `table`."""
        targets = _targets(self.shape, self.source.tables())
        known = [name for name in targets if not wanted or {name, name.partition(".")[2]} & set(wanted)]
        if wanted and not known:
            raise ConfigError(
                "the pipeline does not write this table", tables=", ".join(wanted), carried=", ".join(targets)
            )
        for target in known:
            yield self._verdict_or_why_not(target, targets[target], must=bool(wanted) or len(known) == 1)

    def _verdict_or_why_not(self, target: str, sources: Sequence[SourceSchema], must: bool) -> TableVerdict:
        """Return a verdict also for a table that cannot be compared, so that the others are.

        If this table was asked for, raise the error instead.
        """
        if target in self.parked:
            return TableVerdict(target, "", None, 0, 0, not_compared=f"the table is parked: {self.parked[target]}")
        try:
            return self._verdict(target, sources)
        except (NotComparable, SourceAltered, TableMissing) as why:
            if must:
                raise
            early = isinstance(why, SourceAltered)
            return TableVerdict(target, "", None, 0, 0, not_compared=why.message, is_early=early)

    def _verdict(self, target: str, sources: Sequence[SourceSchema]) -> TableVerdict:
        table = Table(self.shape.warehouse.store(target))
        snapshot, point = self._common(table)
        compared = ComparedColumns.of(table, sources, self.shape, self.ignored)
        before, unfit, lossy = _Side(compared), 0, Counter[str]()
        for rows, bad, lost in self._source_rows(compared, sources, point):
            before.add(rows)
            unfit += bad
            lossy += lost
        after = _Side(compared)
        for rows in _table_rows(compared, table, snapshot):
            after.add(rows)
        differing = before.differs_from(after)
        at, number = point.text, None if snapshot is None else snapshot.id
        if not len(differing):
            return TableVerdict(target, at, number, before.rows, after.rows, unfit=unfit, lossy=lossy)
        before.look_into(differing, (rows for rows, _, _ in self._source_rows(compared, sources, point)))
        after.look_into(differing, _table_rows(compared, table, snapshot))
        keys, counts = _differing_keys(compared.keys, before, after, self.most_keys)
        ranges = tuple(compared.range_text(one) for one in differing[: self.most_keys].tolist())
        return TableVerdict(target, at, number, before.rows, after.rows, ranges, keys, counts, unfit=unfit, lossy=lossy)

    def _common(self, table: Table) -> tuple[Snapshot | None, ComparisonPoint]:
        """Return the table's newest snapshot and the binlog position it represents.

        The position is the end of the table's own last batch, or of a later batch that had no changes for this table.
        """
        latest = table.store.snapshots.latest()
        newest_first = table.store.snapshots.newest_first()
        made = (one for one in newest_first if latest is not None and one.id <= latest.id)
        last = next((one for one in made if one.properties.get(PIPELINE) == self.pipeline), None)
        ends = [] if last is None else [range_of(last)[1]]
        reached = [] if self.reached is None else [self.reached]
        point = self.source.newest([*reached, *ends])
        if point is None:
            raise SourceError("the pipeline has not committed anything yet", table=table.name)
        return latest, point

    def _source_rows(
        self, compared: ComparedColumns, sources: Sequence[SourceSchema], point: ComparisonPoint
    ) -> Iterator[tuple[Rows, int, Counter[str]]]:
        """Yield rows, the number of bad records beside them, and counts of values that no type represents."""
        for schema in sources:
            for change, oddities in self.source.rows_at(schema, point):
                rows, bad, lost = compared.rows_of(change, self.shape)
                lost[NULLS] += sum(oddities.values())
                yield rows, bad, +lost


def _targets(shape: PipelineMapping, schemas: Sequence[SourceSchema]) -> dict[str, list[SourceSchema]]:
    found: dict[str, list[SourceSchema]] = {}
    for schema in schemas:
        target = shape.target(schema.database, schema.table)
        if target is not None:
            found.setdefault(target, []).append(schema)
    return found


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The compared part of a table: the columns that its sources have, except computed and ignored ones."""

    layout: Layout
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    step: int | None  # width of the ranges, if the key is a single whole number

    @classmethod
    def of(
        cls, table: Table, sources: Sequence[SourceSchema], shape: PipelineMapping, ignored: Collection[str]
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
            )
        own = {shape.rules.name(column.name) for source in sources for column in source.fields}
        apart = {one.name for one in shape.new_tables.computed} | {name for name, _ in shape.new_tables.metadata}
        columns = tuple(name for name in schema.names if name in own - apart - set(ignored))
        keys = tuple(name for name in schema.primary_keys if name in own)
        if len(keys) != len(schema.primary_keys):
            raise NotComparable(
                "tables with a computed key cannot be compared", table=table.name, key=schema.primary_keys
            )
        whole = len(keys) == 1 and _is_whole(layout, keys[0])
        return cls(layout, columns, keys, 4096 if whole else None)

    def rows_of(self, change: ChangeBatch, shape: PipelineMapping) -> tuple[Rows, int, Counter[str]]:
        fitted = shape.fit(_known_part(change, self.layout, shape), self.layout.schema, None, 0)
        if fitted is None:
            raise SourceAltered(
                "the source table was altered, and its rows do not fit the target table yet",
                table=f"{change.schema.database}.{change.schema.table}",
                hint="verify again after the next batch",
                retryable=True,
            )
        lost = lossy_values(change, self.layout.schema, shape)
        lost[NULLS] += fitted.nulled
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


def _known_part(change: ChangeBatch, layout: Layout, shape: PipelineMapping) -> ChangeBatch:
    """Return the change without columns that the table does not have (yet)."""
    there = set(layout.schema.names)
    kept = [place for place, one in enumerate(change.schema.fields) if shape.rules.name(one.name) in there]
    if len(kept) == len(change.schema.fields):
        return change
    fields = tuple(change.schema.fields[place] for place in kept)
    return replace(change, schema=replace(change.schema, fields=fields), rows=change.rows.select(kept))


def _table_rows(compared: ComparedColumns, table: Table, snapshot: Snapshot | None) -> Iterator[Rows]:
    """Yield rows with the table's current column names: columns renamed since the snapshot have other names in it."""
    if snapshot is None:
        return
    now, then = compared.layout.schema, table.store.schemas.get(snapshot.schema_id)
    before = {one.id: one.name for one in then.fields}
    columns = list(dict.fromkeys([*compared.columns, *compared.keys]))
    names = {name: before.get(now.field(name).id) for name in columns}
    schema = arrow_schema([now.field(name) for name in columns])
    for batch in table.scan(columns=list(filter(None, names.values())), snapshot=snapshot.id).to_batches():
        if len(batch):
            arrays = [
                pa.nulls(len(batch), field.type) if old is None else batch.column(old).cast(field.type)
                for field, old in zip(schema, names.values(), strict=True)
            ]
            yield compared.hashed(pa.RecordBatch.from_arrays(arrays, names=columns))


class _Side:
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
        distinct, place = np.unique(numbers, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, place, hashes * 0x9E3779B1 & 0xFFFFFFFFFFFF)
        counts = np.bincount(place, minlength=len(distinct))
        for number, total, count in zip(distinct.tolist(), sums.tolist(), counts.tolist(), strict=True):
            self._sums[number] = self._sums.get(number, 0) + total
            self._counts[number] += count
        self.rows += len(hashes)

    def differs_from(self, other: _Side) -> Int64s:
        numbers = sorted(self._sums.keys() | other._sums.keys())
        return np.array([number for number in numbers if self._of(number) != other._of(number)], np.int64)

    def _of(self, number: int) -> tuple[int, int]:
        return self._sums.get(number, 0), self._counts[number]

    def look_into(self, numbers: Int64s, every: Iterator[Rows]) -> None:
        for keys, hashes, of_row in every:
            chosen = np.flatnonzero(np.isin(of_row, numbers))
            if len(chosen):
                lists = [column.take(pa.array(chosen)).to_pylist() for column in keys.columns]
                for key, hashed in zip(zip(*lists, strict=True), hashes[chosen].tolist(), strict=True):
                    if key in self.found:
                        self.doubled.add(key)
                    self.found[key] = hashed


def _differing_keys(
    names: Sequence[str], source: _Side, table: _Side, most: int
) -> tuple[tuple[KeyDiffers, ...], dict[str, int]]:
    """Return the first keys of each kind of difference, and the number of keys per kind."""
    ours, theirs = table.found, source.found
    ways: dict[str, list[Key]] = {
        "missing": [key for key in theirs if key not in ours],
        "extra": [key for key in ours if key not in theirs],
        "changed": [key for key, hashed in theirs.items() if ours.get(key, hashed) != hashed],
        "doubled": list(source.doubled),
    }
    shown = [
        KeyDiffers(how, dict(zip(names, key, strict=True)))
        for how, keys in ways.items()
        for key in sorted(keys, key=str)[:most]
    ]
    return tuple(shown), {how: len(keys) for how, keys in ways.items() if keys}
