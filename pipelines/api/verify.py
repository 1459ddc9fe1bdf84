"""Verifies that a table equals its source, while both continue to change.

They are compared at the binlog position that the table has reached.

Every chunk of the source is read as of that position, every row of both sides is hashed, and the hashes are summed by
key range. Ranges whose sums differ are read again and compared key by key. In memory: one chunk, one batch, the sums,
and the keys of the ranges that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, SourceError
from penstock.formats.change import SourceSchema
from penstock.ingest.source import ComparableSource, ComparisonPoint, Offsets, PastUnknown, ReleasableSource
from penstock.pipelines.api.compared_columns import (
    NULLS,
    ComparedColumns,
    KeyDiffers,
    NotComparable,
    RangeSums,
    Rows,
    SourceAltered,
    differing_keys,
)
from penstock.pipelines.ledger.batch_identity import range_of
from penstock.pipelines.mapping.described_tables import sources_by_target
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.schema_evolution.row_versions import IS_CURRENT, keeps_versions
from penstock.schema_evolution.soft_deletes import DELETED
from penstock.table.handle import Table
from penstock.table.meta.snapshot import PIPELINE, Snapshot
from penstock.table.meta.store import TableMissing
from penstock.table.schema.validation import UnusableName
from penstock.table.values.arrow_types import arrow_schema


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
    is_missing: bool = False  # the pipeline has filled it, and it does not exist any more

    @property
    def is_equal(self) -> bool:
        return not self.differs and self.not_compared is None

    @property
    def differs(self) -> bool:
        return bool(self.ranges) or self.is_missing


_INCOMPATIBLE = "the table cannot store the types of its source, and ignore-incompatible leaves it out"


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification of a pipeline's tables.

    `reached` is the pipeline's position according to the checkpoint, or None if it is unknown: the tables' snapshots
    then provide it.
    """

    pipeline: str
    source: ComparableSource
    mapping: PipelineMapping
    reached: Offsets | None = None
    most_keys: int = 20
    ignored: frozenset[str] = frozenset()
    parked: Mapping[str, str] = field(default_factory=dict)  # tables that lack batches, and why
    leaves_out_incompatible: bool = False  # the pipeline skips tables that cannot store the types of their sources
    filled: Collection[str] = ()  # tables that had rows of their sources, according to the checkpoint

    def verdicts(self, wanted: Collection[str] = ()) -> Iterator[TableVerdict]:
        """Yield a verdict for each table with sources, or for the wanted ones, named `database.table` or `table`."""
        try:
            yield from self._verdicts(wanted)
        finally:
            if isinstance(self.source, ReleasableSource):
                self.source.release()

    def _verdicts(self, wanted: Collection[str]) -> Iterator[TableVerdict]:
        targets = sources_by_target(self.source.tables(), self.mapping)
        known = [name for name in targets if not wanted or {name, name.partition(".")[2]} & set(wanted)]
        unknown = set(wanted) - {part for name in known for part in (name, name.partition(".")[2])}
        if unknown:
            raise ConfigError(
                "the pipeline does not write this table",
                tables=", ".join(sorted(unknown)),
                carried=", ".join(targets),
                hint="name one of the tables that the pipeline writes, or leave --tables out",
            )
        for target in known:
            yield self._verdict_or_why_not(target, targets[target], must=bool(wanted) or len(known) == 1)

    def _verdict_or_why_not(self, target: str, sources: Sequence[SourceSchema], *, must: bool) -> TableVerdict:
        """Return a verdict even if the table cannot be compared, so that the other tables are.

        If the user asked for this table, raise the error instead.
        """
        if target in self.parked:
            return TableVerdict(target, "", None, 0, 0, not_compared=f"the table is parked: {self.parked[target]}")
        try:
            return self._verdict(target, sources)
        except (NotComparable, PastUnknown, SourceAltered, TableMissing, UnusableName) as why:
            if isinstance(why, TableMissing) and target in self.filled:
                return TableVerdict(target, "", None, 0, 0, is_missing=True)
            early = isinstance(why, SourceAltered)
            if early and self._is_left_out(target, sources):
                return TableVerdict(target, "", None, 0, 0, not_compared=_INCOMPATIBLE)
            if must:
                raise
            return TableVerdict(target, "", None, 0, 0, not_compared=why.message, is_early=early)

    def _is_left_out(self, target: str, sources: Sequence[SourceSchema]) -> bool:
        """Return whether the pipeline leaves this table out because it cannot store the types of a source."""
        schema = self.mapping.warehouse.store(target).schema()
        fits = (self.mapping.foreseen(target, schema, self.mapping.shaped(source)) is not None for source in sources)
        return self.leaves_out_incompatible and not all(fits)

    def _verdict(self, target: str, sources: Sequence[SourceSchema]) -> TableVerdict:
        table = Table(self.mapping.warehouse.store(target))
        snapshot, point = self._common(table)
        compared = ComparedColumns.of(table, sources, self.mapping, self.ignored)
        before, unfit, lossy = RangeSums(compared), 0, Counter[str]()
        for rows, bad, lost in self._source_rows(compared, sources, point):
            before.add(rows)
            unfit += bad
            lossy += lost
        after = RangeSums(compared)
        for rows in _table_rows(compared, table, snapshot):
            after.add(rows)
        differing = before.differs_from(after)
        at, number = point.text, None if snapshot is None else snapshot.id
        # Most tables are equal, and are read once. Only for ranges that differ are both sides read again.
        if not len(differing):
            return TableVerdict(target, at, number, before.rows, after.rows, unfit=unfit, lossy=lossy)
        # The second reading sees the same rows: both sides are read as of fixed positions.
        before.find_keys(differing, (rows for rows, _, _ in self._source_rows(compared, sources, point)))
        after.find_keys(differing, _table_rows(compared, table, snapshot))
        keys, counts = differing_keys(compared.keys, before, after, self.most_keys)
        ranges = tuple(compared.range_text(number) for number in differing[: self.most_keys].tolist())
        return TableVerdict(target, at, number, before.rows, after.rows, ranges, keys, counts, unfit=unfit, lossy=lossy)

    def _common(self, table: Table) -> tuple[Snapshot | None, ComparisonPoint]:
        """Return the table's newest snapshot and the position of the source it represents.

        The position is the end of the table's own last batch, or of a later batch that had no changes for this table.
        """
        latest = table.store.snapshots.latest()
        newest_first = table.store.snapshots.newest_first()
        # The pipeline continues to commit while this runs: snapshots after `latest` are not compared.
        made = (snapshot for snapshot in newest_first if latest is not None and snapshot.id <= latest.id)
        last = next((snapshot for snapshot in made if snapshot.properties.get(PIPELINE) == self.pipeline), None)
        ends = [] if last is None else [range_of(last)[1]]
        reached = [] if self.reached is None else [self.reached]
        point = self.source.newest([*reached, *ends])
        if point is None:
            raise SourceError(
                "the pipeline has not committed anything yet", table=table.name, hint="run the pipeline first"
            )
        return latest, point

    def _source_rows(
        self, compared: ComparedColumns, sources: Sequence[SourceSchema], point: ComparisonPoint
    ) -> Iterator[tuple[Rows, int, Counter[str]]]:
        """Yield rows, the number of bad records beside them, and counts of values that no type represents."""
        for schema in sources:
            for change, oddities in self.source.rows_at(schema, point):
                rows, bad, lost = compared.rows_of(change, self.mapping)
                lost[NULLS] += sum(oddities.values())
                yield rows, bad, +lost


def _table_rows(compared: ComparedColumns, table: Table, snapshot: Snapshot | None) -> Iterator[Rows]:
    """Yield rows with the table's current column names: columns renamed since the snapshot have other names in it."""
    if snapshot is None:
        return
    now, then = compared.layout.schema, table.store.schemas.get(snapshot.schema_id)
    before = {field.id: field.name for field in then.fields}
    columns = list(dict.fromkeys([*compared.columns, *compared.keys]))
    names = {name: before.get(now.field(name).id) for name in columns}
    schema = arrow_schema([now.field(name) for name in columns])
    wanted, live = list(filter(None, names.values())), None
    if compared.marks_deletes and DELETED in then.names:
        # Rows that are marked as deleted are no longer in the source.
        live = pc.field(DELETED).is_null() | ~pc.field(DELETED)
    if keeps_versions(now):
        live = pc.field(IS_CURRENT)
    for batch in table.scan(columns=wanted, where=live, snapshot=snapshot.id).to_batches():
        if len(batch):
            arrays = [
                pa.nulls(len(batch), field.type) if old is None else batch.column(old).cast(field.type)
                for field, old in zip(schema, names.values(), strict=True)
            ]
            yield compared.hashed(pa.RecordBatch.from_arrays(arrays, names=columns))
