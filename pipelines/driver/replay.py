"""Handles drift: tables that did not fit a batch are altered, and the batch is read again for them.

Only these tables are replayed, from the same ranges, and everything is committed together.

This is not a second action on the batch's DataFrame, because Spark keeps its input partitions, with the old schemas,
and its shuffle files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError, PenstockError, SchemaConflict
from penstock.ingest.source import grouped
from penstock.pipelines.driver.commit import discard
from penstock.pipelines.errors import KeylessTable, not_created
from penstock.pipelines.ledger.batch_identity import NOW
from penstock.pipelines.mapping.described_tables import LEFT_OUT_HINT
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.mapping.target_tables import Targets, versions_now
from penstock.pipelines.tasks.read import BatchReader, TaskInput
from penstock.pipelines.tasks.reports import BatchReport, RangeReport
from penstock.pipelines.tasks.write import BatchResult
from penstock.table.schema.validation import UnusableName

log = logging.getLogger(__name__)


# One replay is normal. A second is needed if another job alters the table in between.
MOST_REPLAYS = 5


@dataclass(frozen=True, slots=True)
class Replay:
    reading: BatchReader
    targets: Targets
    again: Callable[[Sequence[TaskInput]], BatchResult]
    # whether the batch may continue without the table
    parks: Callable[[str, PenstockError], bool] = lambda table, error: False
    late: bool = False

    def settled(self, written: BatchResult) -> BatchResult:
        """Return the batch without drift.

        Files of drifted tables are removed; files of other tables are kept as they are.
        """
        for _ in range(MOST_REPLAYS):
            drifts = BatchReport(written.reports).drifts
            if not drifts:
                return written
            self.evolve(drifts)
            drifts = self._without_left_out(written, drifts)
            if not drifts:
                continue
            # Values that do not fit a drifted table are known only after its replay, so all dead letters are written
            # again with it.
            replayed = frozenset(drifts) | self.reading.on_bad.letters
            for table in replayed:
                discard(self.reading.warehouse.store(table), written.messages.pop(table, []))
            again = self.again(self.shares(written.reports, replayed))
            written = merged(written, again, frozenset(drifts))
        raise SchemaConflict(
            f"the schema still changes after {MOST_REPLAYS} replays of a batch", tables=", ".join(sorted(drifts))
        )

    def shares(self, reports: Sequence[RangeReport], only: frozenset[str]) -> list[TaskInput]:
        """Return the ranges of a batch for some of its tables, at their current versions."""
        groups = grouped([report.range for report in reports], self.reading.tasks)
        everything = bool(only & self.reading.on_bad.letters)
        schemas = {table: schema for table, schema in self.targets.schemas.items() if everything or table in only}
        versions = versions_now(self.reading.warehouse, schemas)
        span = BatchReport(list(reports)).span
        now = int(span[1].get(NOW, 0)) if span else 0
        left_out = frozenset(self.targets.left_out)
        return [TaskInput(tuple(group), versions, now, None, only, left_out, self.late) for group in groups]

    def evolve(self, drifts: Mapping[str, list[SeenSchema]]) -> None:
        """Alter each table so that it can store the schemas seen.

        New tables that cannot be created are left out if other tables exist; with `ignore_incompatible`, so are tables
        that cannot store a schema.
        """
        schemas, unmade = {}, dict[str, PenstockError]()
        for table, found in drifts.items():
            current = self.reading.warehouse.store(table).schema() if table in self.targets.schemas else None
            try:
                schema = self.reading.mapping.evolved(table, current, found)
            except (SchemaConflict, ConfigError) as error:
                if current is None:
                    unmade[table] = error
                else:
                    self._give_up(table, found, error)
                continue
            if current is None or current.id != schema.id:  # a rename may have made that version already
                before = "none" if current is None else current.id
                log.info("event=schema_evolved table=%s from=%s to=%d", table, before, schema.id)
            schemas[table] = schema.id
        self.targets.put(schemas)
        # The only table is not left out: the settings may ask for something that no table can have, which the user must
        # see.
        leaves_out = self.reading.leaves_out and bool(self.targets.schemas.keys() - self.reading.on_bad.letters)
        refused: dict[str, PenstockError] = {}
        for table, why in unmade.items():
            odd = isinstance(why, UnusableName) or (isinstance(why, ConfigError) and not self.reading.isolates)
            if isinstance(why, KeylessTable) or (leaves_out and odd):
                self._leave_out(table, drifts[table], why)
            else:
                try:
                    self._give_up(table, drifts[table], why)
                except PenstockError as error:
                    refused[table] = error
        if refused:
            raise not_created(refused)

    def _give_up(self, table: str, found: Sequence[SeenSchema], error: PenstockError) -> None:
        """Continue without the table, or raise. A table that received rows in this run is never left out midway."""
        if self.parks(table, error):
            return
        ignored = self.reading.ignore_incompatible and isinstance(error, SchemaConflict)
        if not ignored or table in self.targets.taken:
            raise error
        self._leave_out(table, found, error)

    def _leave_out(self, table: str, found: Sequence[SeenSchema], error: PenstockError) -> None:
        sources = ", ".join(sorted({f"{one.schema.database}.{one.schema.table}" for one in found}))
        hint = error.hint if isinstance(error, KeylessTable) else LEFT_OUT_HINT
        log.warning("event=table_left_out table=%s source=%s reason=%s hint=%s", table, sources, error.message, hint)
        self.targets.leave_out([table], f"{error.message} (source {sources})")

    def _without_left_out(
        self, written: BatchResult, drifts: Mapping[str, list[SeenSchema]]
    ) -> dict[str, list[SeenSchema]]:
        """Return the drift of the other tables, and discard what was written for the left-out ones."""
        left_out = self.targets.left_out
        for table in left_out & written.messages.keys():  # a table that cannot be created has no files
            discard(self.reading.warehouse.store(table), written.messages.pop(table))
        for report in written.reports:
            for table in left_out:
                report.leave_out(table)
        return {table: found for table, found in drifts.items() if table not in left_out}


def merged(first: BatchResult, again: BatchResult, replayed: frozenset[str]) -> BatchResult:
    """Return the first reading's reports, with the replay's results for the tables that were replayed."""
    found = {report.range.number: report for report in again.reports}
    for report in first.reports:
        for table in replayed:
            report.replace(table, found[report.range.number])
    first.stats.add(again.stats)
    first.stats.replays += len(replayed)
    return BatchResult({**first.messages, **again.messages}, first.reports, stats=first.stats)
