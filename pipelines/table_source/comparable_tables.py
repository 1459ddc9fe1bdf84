"""The rows of source tables as of the snapshots that a pipeline has read, for `penstock verify`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.ingest.source import ComparisonPoint, Offsets, PastUnknown
from penstock.pipelines.table_source.progress import TABLES, SourceProgress
from penstock.pipelines.table_source.source import TableSource
from penstock.table.errors import SnapshotMissing


@dataclass(frozen=True, slots=True)
class TableComparison:
    """A `ComparableSource`: tables at the last snapshots that were read. Holds one batch of rows in memory."""

    source: TableSource

    def tables(self) -> list[SourceSchema]:
        opened = map(self.source.upstream, self.source.settings.tables)
        return [table.described(table.store.schema()) for table in opened]

    def newest(self, reached: Sequence[Offsets]) -> ComparisonPoint | None:
        known = [(SourceProgress.from_json(offsets), offsets) for offsets in reached if TABLES in offsets]
        if not known:
            return None
        progress, offsets = max(known, key=lambda pair: pair[0].reached)
        for name, table in progress.tables.items():
            if table.done < table.splits:
                raise SourceError(
                    "the rows that a source table had when the pipeline began are still being read",
                    source_table=name,
                    snapshot=table.state,
                    hint="verify again after the next batches",
                    retryable=True,
                )
        places = (f"snapshot {table.next - 1} of {name}" for name, table in progress.tables.items())
        return ComparisonPoint(offsets, ", ".join(places))

    def rows_at(self, table: SourceSchema, point: ComparisonPoint) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        name = f"{table.database}.{table.table}"
        progress = SourceProgress.from_json(point.offsets).tables.get(name)
        number = 0 if progress is None else progress.next - 1
        if not number:  # the table had no snapshot yet
            return
        upstream = self.source.upstream(name)
        try:
            snapshot = upstream.store.snapshots.get(number)
            for batch in upstream.state(snapshot, 0, len(upstream.state_splits(snapshot))):
                yield batch, {}
        except SnapshotMissing as error:
            raise PastUnknown(
                "the source table no longer has the snapshot that the pipeline has reached",
                source_table=name,
                snapshot=number,
                hint="a  consumer-id  keeps snapshots; or let the pipeline catch up and verify again",
            ) from error
