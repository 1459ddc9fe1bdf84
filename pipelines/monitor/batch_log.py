"""The lines that a run logs after each batch."""

from __future__ import annotations

import logging

from penstock.pipelines.monitor.facts import BatchFacts, SnapshotProgress
from penstock.schema_evolution.expectations import EXPECT, UPDATES_DROPPED

log = logging.getLogger(__name__)


def log_batch(facts: BatchFacts) -> None:
    """Log the numbers of a batch, and the quality rules that its rows did not meet."""
    log.info(
        "event=batch number=%d records=%d rows=%d tables=%d messages=%d bytes=%d seconds=%.2f"
        " records_per_second=%.0f bad=%d",
        facts.number,
        facts.total_rows,
        sum(facts.stats.merged.values()),
        len(facts.rows),
        facts.messages,
        facts.bytes,
        facts.seconds,
        facts.total_rows / facts.seconds,
        sum(facts.bad.values()),
    )
    if facts.messages_again:
        log.info("event=deferred_records_read number=%d messages=%d", facts.number, facts.messages_again)
    _log_expectations(facts)


def log_copying(now: SnapshotProgress) -> None:
    """Log the progress of the source snapshot while tables are read."""
    if now.tables:
        log.info(
            "event=copying share=%.2f rows=%d expected=%d rows_per_second=%.0f seconds_left=%s tables_done=%d",
            now.share,
            now.rows,
            now.expected,
            now.rows_per_second,
            "unknown" if now.seconds_left is None else round(now.seconds_left),
            now.done,
        )


def _log_expectations(facts: BatchFacts) -> None:
    found = {name: count for name, count in sorted(facts.passed_over.items()) if name.startswith(EXPECT)}
    if found:
        log.warning(
            "event=expectations_not_met number=%d rows=%d updates_dropped=%d rules=%s",
            facts.number,
            sum(found.values()),
            # In the tables, these rows are as they were before the update.
            facts.passed_over.get(UPDATES_DROPPED, 0),
            ", ".join(f"{name.removeprefix(EXPECT)} {count}" for name, count in found.items()),
        )
