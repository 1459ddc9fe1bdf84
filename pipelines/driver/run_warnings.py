"""Warnings about rows in the batches of a run. Each is logged once for a table, not with every batch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from penstock.pipelines.tasks.batch_report import BatchReport

log = logging.getLogger(__name__)

_NAMED = 5  # source tables in one line


@dataclass(frozen=True, slots=True)
class RunWarnings:
    """The warnings of one run, and which of them were logged.

    `expects_one_source`: all messages go to one table, and nobody chose their source tables.
    """

    expects_one_source: bool = False
    _sources: set[tuple[str, str]] = field(default_factory=set)  # database and table in messages, if one is expected
    _logged: set[tuple[str, str]] = field(default_factory=set)  # events and tables

    def warn(self, report: BatchReport, *, captures_nothing: bool) -> None:
        """Log the warnings about a batch. `captures_nothing`: no source table has a target so far."""
        if captures_nothing:
            self._warn_of_nothing(report)
        if self.expects_one_source:
            self._warn_of_several_sources(report)
        self._warn_of_deletes(report)
        self._warn_of_partial_images(report)
        self._warn_of_unordered_deletes(report)
        self._warn_of_changelogs(report)

    def _is_first(self, event: str, table: str) -> bool:
        """Return whether this event of a table is the first of the run: each is logged once."""
        known = len(self._logged)
        self._logged.add((event, table))
        return len(self._logged) > known

    def _warn_of_nothing(self, report: BatchReport) -> None:
        rows = report.passed_over["rows.left.out"]
        if rows and self._is_first("nothing_captured", ""):
            hint = "correct the selection (names are regular expressions that match the whole name), then read again"
            log.warning("event=nothing_captured rows=%d hint=%s with a new checkpoint", rows, hint)

    def _warn_of_several_sources(self, report: BatchReport) -> None:
        for table, sources in report.sources.items():
            if len(self._sources) < _NAMED:
                self._sources.update(sorted(sources)[:_NAMED])
            if len(self._sources) > 1 and self._is_first("rows_of_several_tables", table):
                log.warning(
                    "event=rows_of_several_tables table=%s sources=%s hint=%s",
                    table,
                    ",".join(".".join(source) for source in sorted(self._sources)[:_NAMED]),
                    "rows with the same key replace each other. kafka-sync-database (no sink: table) writes a table for"
                    " each source table; selection: {including-tables: REGEX} in a file chooses source tables, and ends"
                    " this warning",
                )

    def _warn_of_deletes(self, report: BatchReport) -> None:
        for table, of_range in report.tables:
            if of_range.dropped and self._is_first("append_deletes_dropped", table):
                log.warning(
                    "event=append_deletes_dropped table=%s hint=a table without primary key keeps inserts and new rows"
                    " of updates only: --primary-keys defines its key",
                    table,
                )

    def _warn_of_partial_images(self, report: BatchReport) -> None:
        for table, columns in {
            table: of_range.omitted for table, of_range in report.tables if of_range.omitted
        }.items():
            if self._is_first("updates_without_columns", table):
                log.warning(
                    "event=updates_without_columns table=%s columns=%s hint=these columns are null now. Unless they"
                    " were dropped at the source, set its binlog_row_image to FULL and read the table again, or use"
                    " merge-engine=partial-update, where null means unchanged",
                    table,
                    ",".join(columns),
                )

    def _warn_of_unordered_deletes(self, report: BatchReport) -> None:
        for table, of_range in report.tables:
            if of_range.unordered and self._is_first("deletes_without_effect", table):
                log.warning(
                    "event=deletes_without_effect table=%s deletes=%d example=%s reason=%s hint=%s",
                    table,
                    sum(counts.unordered for name, counts in report.tables if name == table),
                    of_range.unordered_at,
                    "these messages contain only the key, and no value of the table's sequence.field, so its rows stay",
                    "let the producer write full rows of deletes (PostgreSQL: REPLICA IDENTITY FULL; MySQL:"
                    " binlog_row_image=FULL; MongoDB: pre-images), or set no sequence.field; then read the table again",
                )

    def _warn_of_changelogs(self, report: BatchReport) -> None:
        for table, of_range in report.tables:
            if of_range.never_added and self._is_first("changelog_without_inserts", table):
                log.warning(
                    "event=changelog_without_inserts table=%s hint=a quality rule left rows out, and the changelog has"
                    " their later updates and deletes: changelog-producer=lookup compares with the table instead",
                    table,
                )
