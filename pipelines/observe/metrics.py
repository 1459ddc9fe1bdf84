"""Prometheus metrics of a run, in a registry of their own. Series by table end at 500 tables: the stalest stay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.observe.facts import BatchFacts, Look

MOST_TABLES = 500
_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)


class Metrics:
    """An observer. ConfigError where the package is missing; `text()` is what a scrape gets."""

    def __init__(self, pipeline: str) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as reason:
            raise ConfigError(
                "metrics need the package prometheus-client", hint="pip install 'penstock[observe]'"
            ) from reason
        self._prometheus: Any = prometheus
        self.registry: Any = prometheus.CollectorRegistry()
        self._newest: dict[str, int] = {}
        self._caught_up: int | None = None
        self._define(pipeline)

    def _define(self, pipeline: str) -> None:
        prometheus, registry = self._prometheus, self.registry

        def gauge(name: str, does: str, *labels: str) -> Any:
            return prometheus.Gauge(f"penstock_{name}", does, labels, registry=registry)

        def counter(name: str, does: str, *labels: str) -> Any:
            return prometheus.Counter(f"penstock_{name}", does, labels, registry=registry)

        self.up = gauge("up", "1 while the pipeline runs")
        info = gauge("info", "what runs", "version", "pipeline")
        info.labels(penstock.__version__, pipeline).set(1)
        self.freshness = gauge(
            "freshness_seconds", "now less the source's time of the newest committed change", "table"
        )
        self.lag_seconds = gauge("source_lag_seconds", "the oldest freshness of all tables")
        self.lag_records = gauge("source_lag_records", "what the source has beyond the tables", "place")
        self.rows = counter("rows", "rows committed", "table")
        self.messages = counter("messages", "messages read")
        self.bytes = counter("bytes", "bytes read")
        self.batches = counter("batches", "batches committed")
        self.seconds = prometheus.Histogram(
            "penstock_batch_seconds", "from finding a batch's end to its commits", buckets=_BUCKETS, registry=registry
        )
        self.schemas = counter("schema_changes", "versions of schemas made", "table")
        self.bad = counter("dead_letters", "records that were not taken", "reason")
        self.passed_over = counter("passed_over", "what is in no table, or not as it came", "what")
        self.committed = gauge("last_commit_timestamp_seconds", "when the table was committed to", "table")
        self.memory = gauge("memory_bytes", "resident memory of the driver", "role")
        self.up.set(1)

    def batch(self, facts: BatchFacts) -> None:
        self.batches.inc()
        self.messages.inc(facts.messages)
        self.bytes.inc(facts.bytes)
        self.seconds.observe(facts.seconds)
        for table, rows in facts.rows.items():
            self.rows.labels(table).inc(rows)
            self.committed.labels(table).set(facts.millis / 1000)
        for change in facts.schemas:
            self.schemas.labels(change.table).inc()
        for reason, count in facts.bad.items():
            self.bad.labels(reason).inc(count)
        for what, count in facts.passed_over.items():
            self.passed_over.labels(what).inc(count)
        self._newest |= facts.newest
        self._age(facts.millis)

    def looked(self, look: Look) -> None:
        if look.caught_up:
            self._caught_up = look.millis
        self.lag_records.clear()
        for place, count in sorted(look.lag.items(), key=lambda one: -one[1])[:MOST_TABLES]:
            self.lag_records.labels(place).set(count)
        self._age(look.millis)

    def ended(self, error: PenstockError | None) -> None:
        self.up.set(0)

    def text(self) -> bytes:
        self.memory.labels("driver").set(_resident())
        found: bytes = self._prometheus.generate_latest(self.registry)
        return found

    def _age(self, now_millis: int) -> None:
        """An idle table is as fresh as the last look at a source that had nothing more."""
        ages = {
            table: max(0, now_millis - max(newest, self._caught_up or 0)) / 1000
            for table, newest in self._newest.items()
        }
        self.freshness.clear()
        for table, age in sorted(ages.items(), key=lambda one: -one[1])[:MOST_TABLES]:
            self.freshness.labels(table).set(age)
        self.lag_seconds.set(max(ages.values(), default=0))


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
