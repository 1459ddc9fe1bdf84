"""What `penstock status` says of tables with a freshness, and what the estimate of requests makes of it."""

from __future__ import annotations

from penstock.ingest.kafka.settings import KafkaSettings
from penstock.ingest.kafka.source import KafkaSource
from penstock.pipelines.monitor.deferred_tables import NOTHING_DEFERRED, DeferredTables
from penstock.pipelines.monitor.store_cost import RequestPrices, StoreCost

NOW = 1_700_000_000_000
OFFSETS = {
    "offsets": {"t": {"0": 9}},
    "freshness": {
        "routes": [["shop.slow", 600_000], ["shop.old", 3_600_000]],
        "others": 0,
        "read": {
            "600000": {"offsets": {"t": {"0": 4}}, "at": NOW - 60_000},
            "3600000": {"offsets": {"t": {"0": 9}}, "at": NOW - 120_000},
        },
    },
}
SOURCES = {("shop", "slow"): "ods.slow", ("shop", "old"): "ods.old", ("shop", "fast"): "ods.fast"}


def deferred() -> DeferredTables:
    return DeferredTables.of(OFFSETS, SOURCES).counted(KafkaSource(KafkaSettings({})), OFFSETS)


def test_each_interval_has_what_is_deferred_and_when_it_is_due() -> None:
    assert [(fact["freshness"], fact["deferred"], fact["tables"]) for fact in deferred().facts()] == [
        ("10m", 5, ["ods.slow"]),
        ("1h", 0, ["ods.old"]),
    ]
    assert deferred().due_millis("ods.slow") == NOW - 60_000 + 600_000
    assert (deferred().freshness("ods.fast"), deferred().due_millis("ods.fast")) == (None, None)


def test_a_table_is_as_old_as_the_last_reading_of_its_interval() -> None:
    assert deferred().defers("ods.slow")
    assert deferred().fresh_seconds("ods.slow", 9999.0, NOW) == 60
    assert not deferred().defers("ods.old"), "it has all that was read"
    assert not deferred().defers("ods.fast")


def test_without_a_count_rows_may_be_deferred() -> None:
    assert DeferredTables.of(OFFSETS, SOURCES).defers("ods.old")


def test_a_pipeline_without_freshness_defers_nothing() -> None:
    assert DeferredTables.of({"offsets": {}}, SOURCES).facts() == NOTHING_DEFERRED.facts() == []


def test_the_estimate_counts_commits_by_the_freshness() -> None:
    options, prices = {"bucket": "1"}, RequestPrices()
    both = StoreCost.of("s3://lake", [(options, True, 0.0), (options, True, 0.0)], 60, prices)
    slow = StoreCost.of("s3://lake", [(options, True, 0.0), (options, True, 600.0)], 60, prices)
    single = StoreCost.of("s3://lake", [(options, True, 0.0)], 60, prices)
    assert both is not None
    assert slow is not None
    assert single is not None
    assert both.requests_per_day == 2 * single.requests_per_day
    assert slow.requests_per_day == round(1.1 * single.requests_per_day)
    assert "1 of them by their freshness" in str(slow)
