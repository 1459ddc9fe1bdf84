"""Drift: evolve the tables that a batch did not fit, read the same ranges again for them alone, commit all together.

Not by a second action on the batch: Spark keeps its input partitions, with the old layouts, and its shuffle files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import SchemaConflict
from penstock.ingest.carried import carrying
from penstock.ingest.ranges import grouped
from penstock.pipelines.run import blobs
from penstock.pipelines.run.committing import discard
from penstock.pipelines.run.reading import Reading, Share
from penstock.pipelines.run.reports import BatchReport, RangeReport
from penstock.pipelines.run.shaping import Seen
from penstock.pipelines.run.tables import Targets, Version
from penstock.pipelines.run.writing import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# One is the rule. A second comes when a foreign job alters the table in between.
MOST_REPLAYS = 5


@dataclass(frozen=True, slots=True)
class Replay:
    reading: Reading
    targets: Targets
    write: Callable[[DataFrame], Written]

    def settled(self, session: SparkSession, written: Written) -> Written:
        """The batch without drift. Files of drifted tables are removed; the others' are kept as they are."""
        for _ in range(MOST_REPLAYS):
            drifts = BatchReport(written.reports).drifts
            if not drifts:
                return written
            self._evolve(drifts)
            for table in drifts:
                discard(self.reading.warehouse.store(table), written.messages.pop(table, []))
            again = self.write(self._rows(session, written.reports, frozenset(drifts)))
            written = merged(written, again, frozenset(drifts))
        raise SchemaConflict(
            f"the schema still changes after {MOST_REPLAYS} replays of a batch", tables=", ".join(sorted(drifts))
        )

    def _evolve(self, drifts: Mapping[str, list[Seen]]) -> None:
        versions = {}
        for table, found in drifts.items():
            known = self.targets.versions.get(table)
            current = None if known is None else self.reading.warehouse.store(table).schema()
            schema = self.reading.shaping.evolved(table, current, found)
            log.info("event=schema_evolved table=%s from=%s to=%d", table, current and current.id, schema.id)
            versions[table] = Version(schema.id, known.snapshot if known else 0)
        self.targets.put(versions)

    def _rows(self, session: SparkSession, reports: list[RangeReport], only: frozenset[str]) -> DataFrame:
        groups = grouped([report.range for report in reports], self.reading.tasks)
        shares = [Share(tuple(group), dict(self.targets.versions), None, only) for group in groups]
        reading = self.reading

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with carrying():
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        yield from reading.read(shares[number])

        return session.range(0, len(shares), 1, len(shares)).mapInArrow(read, blobs.COLUMNS)


def merged(first: Written, again: Written, replayed: frozenset[str]) -> Written:
    """The reports of the first reading with what the replay found of the tables it was for."""
    found = {report.range.number: report for report in again.reports}
    for report in first.reports:
        other = found[report.range.number]
        report.drifts = other.drifts
        for table in replayed:
            report.rows[table] = other.rows[table]
            report.dropped[table] = other.dropped[table]
            report.unfit.pop(table, None)
            if table in other.unfit:
                report.unfit[table] = other.unfit[table]
            if table in other.newest:
                report.newest[table] = other.newest[table]
    return Written({**first.messages, **again.messages}, first.reports)
