"""Prometheus metrics of a run, in a separate registry. At most 500 tables, the least fresh ones, have own series."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.ingest.connector import RECORDS, LagUnit
from penstock.pipelines.monitor.facts import BatchFacts, Look, SnapshotProgress
from penstock.pipelines.monitor.sizes import Size
from penstock.pipelines.tasks.task_stats import TaskStats

MOST_TABLES = 500
_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)


def prometheus_client() -> Any:
    """Return the package that encodes metrics. ConfigError if it is not installed."""
    try:
        import prometheus_client as found
    except ImportError as reason:
        raise ConfigError(
            "metrics need the package prometheus-client", hint="pip install prometheus-client"
        ) from reason
    return found


class Metrics:
    """An observer that keeps metrics for Prometheus. `text()` returns them. ConfigError if the package is missing.

    `lag_unit` is the unit of the source's lag; `copying` returns the progress of the snapshot, `sizes` the sizes of
    tables, `parked` the number of parked tables now: a run also releases tables.
    """

    def __init__(
        self,
        pipeline: str,
        *,
        lag_unit: LagUnit = RECORDS,
        copying: Callable[[], SnapshotProgress] = SnapshotProgress,
        sizes: Callable[[Iterable[str]], Mapping[str, Size]] | None = None,
        parked: Callable[[], int] = lambda: 0,
    ) -> None:
        self._prometheus = prometheus_client()
        self.registry: Any = self._prometheus.CollectorRegistry()
        self._newest: dict[str, int] = {}
        self._caught_up: int | None = None
        self._lag_measure, self._copying, self._sizes = lag_unit.partition(" ")[0], copying, sizes
        self._parked = parked
        self._tables: set[str] = set()
        self._define(pipeline)

    def _gauge(self, name: str, does: str, *labels: str) -> Any:
        return self._prometheus.Gauge(f"penstock_{name}", does, labels, registry=self.registry)

    def _counter(self, name: str, does: str, *labels: str) -> Any:
        return self._prometheus.Counter(f"penstock_{name}", does, labels, registry=self.registry)

    def _define(self, pipeline: str) -> None:
        gauge = self._gauge
        self.up = gauge("up", "1 while the pipeline runs")
        info = gauge("info", "what runs", "version", "pipeline")
        info.labels(penstock.__version__, pipeline).set(1)
        self.freshness = gauge(
            "freshness_seconds", "seconds since the source time of the newest committed change", "table"
        )
        self._define_lag()
        self._define_batches()
        self._define_tables()
        self.parked = gauge("parked_tables", "parked tables: failed, and waiting for a retry")
        self.memory = gauge("memory_bytes", "resident memory of the driver, and the maximum of any task", "role")
        self.up.set(1)

    def _define_batches(self) -> None:
        counter = self._counter
        self.rows = counter("rows", "records committed, counted before changes of one key are merged", "table", "kind")
        self.merged = counter("merged_rows", "rows of committed files, after changes of one key are merged", "table")
        self.messages = counter("messages", "messages read")
        self.bytes = counter(
            "bytes", "bytes read from the source, or written to files of a table", "table", "direction"
        )
        self.batches = counter("batches", "batches committed")
        self.whole = self._prometheus.Histogram(
            "penstock_batch_total_seconds",
            "seconds from the choice of a batch's end position to its last commit",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.seconds = self._prometheus.Histogram(
            "penstock_batch_seconds",
            "seconds of a batch by stage: decode, route and write are summed over tasks",
            ("stage",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.retries = counter("commit_retries", "commits retried because another writer committed first", "table")
        self.conflicts = counter(
            "commit_conflicts", "commits that failed because of a conflict with another writer", "table"
        )
        self.schemas = counter("schema_changes", "schema changes applied", "table", "type")
        self.replays = counter("replays", "tables of a batch read again after their schema changed")
        self.bad = counter("dead_letters", "bad records", "table", "reason")
        self.passed_over = counter(
            "passed_over", "records that were skipped or values that were changed, by kind", "what"
        )

    def _define_tables(self) -> None:
        gauge = self._gauge
        self.committed = gauge("last_commit_timestamp_seconds", "time of the table's last commit", "table")
        self.copied = gauge(
            "snapshot_rows", "rows of the source snapshot: copied, and expected in total", "table", "state"
        )
        self.files = gauge("bucket_files", "largest number of files in a bucket that the last batch wrote to", "table")
        self.runs = gauge(
            "sorted_runs", "largest number of sorted runs in a bucket that the last batch wrote to", "table"
        )
        self.table_files = gauge("table_files", "number of files in the table's latest snapshot", "table")
        self.table_bytes = gauge("table_bytes", "size in bytes of the files in the table's latest snapshot", "table")

    def _define_lag(self) -> None:
        gauge = self._gauge
        self.lag_seconds = gauge("source_lag_seconds", "freshness of the table that is furthest behind")
        if self._lag_measure == "seconds":
            self.lag_log = gauge("source_lag_log_seconds", "seconds of the source's log that are not in the tables yet")
        elif self._lag_measure == "bytes":
            self.lag_bytes = gauge("source_lag_bytes", "bytes of the source that are not in the tables yet")
        else:
            self.lag_records = gauge(
                "source_lag_records", "records of the source that are not in the tables yet", "topic", "partition"
            )

    def batch(self, facts: BatchFacts) -> None:
        stats = facts.stats
        self.batches.inc()
        self.messages.inc(facts.messages)
        self.bytes.labels("", "read").inc(facts.bytes)
        self.whole.observe(facts.seconds)
        for stage, spent in stats.seconds.items():
            self.seconds.labels(stage).observe(spent)
        for (table, kind), rows in facts.kinds.items():
            self.rows.labels(table, kind).inc(rows)
        self._tables.update(facts.rows)
        for table in facts.rows:
            self.committed.labels(table).set(facts.millis / 1000)
        for change in facts.schemas:
            for kind in change.kinds:
                self.schemas.labels(change.table, kind).inc()
        for (table, reason), count in facts.bad_of.items():
            self.bad.labels(table, reason).inc(count)
        self._count(stats)
        for kind, count in facts.passed_over.items():
            self.passed_over.labels(kind).inc(count)
        self._newest |= facts.newest
        self._age(facts.millis)

    def _count(self, stats: TaskStats) -> None:
        self.replays.inc(stats.replays)
        for table, rows in stats.merged.items():
            self.merged.labels(table).inc(rows)
        for table, size in stats.bytes.items():
            self.bytes.labels(table, "written").inc(size)
        for counter, counts in ((self.retries, stats.retries), (self.conflicts, stats.conflicts)):
            for table, count in counts.items():
                counter.labels(table).inc(count)
        for most, found in ((self.files, stats.files), (self.runs, stats.runs)):
            for table, count in found.items():
                most.labels(table).set(count)
        if stats.memory:
            self.memory.labels("task").set(stats.memory)

    def looked(self, look: Look) -> None:
        if look.caught_up:
            self._caught_up = look.millis
        if self._lag_measure == "seconds":
            self.lag_log.set(look.lag.get("log", 0))
        elif self._lag_measure == "bytes":
            # The other entries of a server's lag are tables that are still to be copied, not bytes.
            self.lag_bytes.set(look.lag["log"] if "log" in look.lag else sum(look.lag.values()))
        else:
            # A series that is not set again would keep its last value, so places without lag are removed first.
            self.lag_records.clear()
            for place, count in sorted(look.lag.items(), key=lambda pair: -pair[1])[:MOST_TABLES]:
                # The place of a source table is its name alone.
                topic, _, partition = place.rpartition("/") if "/" in place else (place, "", "")
                self.lag_records.labels(topic, partition).set(count)
        self._age(look.millis)

    def ended(self, error: PenstockError | None) -> None:
        self.up.set(0)

    def text(self) -> bytes:
        self.memory.labels("driver").set(_resident())
        self.parked.set(self._parked())
        self.copied.clear()
        for table in self._copying().tables:
            self.copied.labels(table.table, "copied").set(table.rows)
            self.copied.labels(table.table, "expected").set(table.expected)
        self._size()
        found: bytes = self._prometheus.generate_latest(self.registry)
        return found

    def _size(self) -> None:
        """Count files and bytes. A scrape calls this in its own thread, so no batch waits for it."""
        if self._sizes is None:
            return
        self.table_files.clear()
        self.table_bytes.clear()
        found = self._sizes(sorted(self._tables))
        for table, size in sorted(found.items(), key=lambda pair: -pair[1].files)[:MOST_TABLES]:
            self.table_files.labels(table).set(size.files)
            self.table_bytes.labels(table).set(size.bytes)

    def _age(self, now_millis: int) -> None:
        """Set the ages of the tables. An idle table is as fresh as the last request that found its source empty."""
        ages = {
            table: max(0, now_millis - max(newest, self._caught_up or 0)) / 1000
            for table, newest in self._newest.items()
        }
        self.freshness.clear()
        for table, age in sorted(ages.items(), key=lambda pair: -pair[1])[:MOST_TABLES]:
            self.freshness.labels(table).set(age)
        self.lag_seconds.set(max(ages.values(), default=0))


def _resident() -> int:
    try:
        # The second number is the resident memory, in pages.
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
