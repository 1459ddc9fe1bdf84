"""Tables with a freshness: batches defer their records, and read them again when they are due."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.ingest.deferred_ranges import DeferredRanges
from penstock.ingest.source import NO_LIMIT
from tests.deferred_shop import MINUTE, SLOW, START, DeferredShop, row


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeferredShop:
    return DeferredShop(tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_table_with_a_freshness_is_committed_once_in_this_time(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    assert shop.batch()  # all tables are created by the first batch
    for minute in range(1, 13):
        shop.pass_time(MINUTE)
        shop.put_both(minute)
        assert shop.batch()
    assert shop.ids("fast") == list(range(13))
    assert shop.ids("slow") == list(range(11))
    assert len(shop.snapshots("fast")) == 13
    assert len(shop.snapshots("slow")) == 2
    # What was deferred is read twice, everything else once.
    assert shop.topics.read == [("t/0", 24, 26)]


def test_the_first_batch_reads_each_record_once(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0, 1)
    shop.batch()
    assert shop.topics.read == [("t/0", 0, 4), ("t/0", 0, 4)]  # again, as the tables are created
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1], [0, 1])


def test_an_interval_that_is_due_needs_no_new_records(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    assert not shop.batch()
    shop.pass_time(10 * MINUTE)
    assert shop.batch()
    assert shop.topics.read == [("t/0", 2, 4)]
    assert shop.ids("slow") == [0, 1]
    assert len(shop.snapshots("fast")) == 2
    shop.pass_time(10 * MINUTE)
    assert not shop.batch(), "nothing is deferred"


def test_a_bounded_run_leaves_nothing_deferred(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.put_both(2)
    assert shop.drain() == 1
    assert shop.ids("slow") == [0, 1, 2]
    assert not shop.drain()


def test_a_source_with_deferred_records_has_not_caught_up(shop: DeferredShop) -> None:
    """Whoever asks the source whether a bounded run has a batch gets the answer of the run."""
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    for rules in ([SLOW], []):  # deferred records are read without the key, too
        source, last = shop.start(*rules).driver.reader.source, shop.offsets[-1]
        assert source.latest_offsets(last, NO_LIMIT, source.available()) != last
    shop.drain()
    source, last = shop.driver.reader.source, shop.offsets[-1]
    assert source.latest_offsets(last, NO_LIMIT, source.available()) == last


def test_a_bounded_run_drains_in_steps_of_its_limit(shop: DeferredShop) -> None:
    shop.start(SLOW, pipeline={"max-batch": {"rows": 4}})
    shop.put_both(0)
    shop.batch()
    shop.put_both(*range(1, 9))
    assert shop.drain() > 4
    assert shop.ids("fast") == shop.ids("slow") == list(range(9))


@pytest.mark.slow
def test_a_deferred_range_that_is_larger_than_a_batch_is_read_in_steps(shop: DeferredShop) -> None:
    shop.start(SLOW, pipeline={"max-batch": {"rows": 4}})
    shop.put_both(0)
    shop.batch()
    for number in range(1, 7):
        shop.put_both(number)
        shop.batch()
    shop.pass_time(10 * MINUTE)
    seen = []
    while shop.batch():
        seen.append(shop.ids("slow"))
        assert sum(end - start for _, start, end in shop.topics.read) <= 4
    assert seen == [[0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6]]


def test_a_repeated_batch_reads_the_same_ranges_at_another_time(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.plan()
    shop.pass_time(60 * MINUTE)
    shop.start(SLOW)
    shop.take()
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1], [0])
    shop.take()
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1], [0])


def test_a_new_partition_is_deferred_from_its_beginning(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.topics.put(row("slow", 1), row("fast", 1), partition=1)
    shop.batch()
    shop.topics.put(row("slow", 2), partition=1)
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert shop.topics.read == [("t/1", 0, 3)]
    assert shop.ids("slow") == [0, 1, 2]


def test_a_table_that_appears_later_has_the_freshness_of_its_route(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.topics.put(row("slow_too", 1), row("another", 1))
    shop.batch()
    assert shop.ids("another") == [1]
    assert "ods.slow_too" not in shop.driver.reader.warehouse.tables("ods")
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert shop.ids("slow_too") == [1]


RULES: dict[str, list[Mapping[str, str]]] = {
    "removed": [],
    "shorter": [{**SLOW, "freshness": "5m"}],
    "longer": [{**SLOW, "freshness": "1h"}],
    "of other tables": [{**SLOW, "source-table": "shop.fast"}],
    "two intervals": [{**SLOW, "source-table": "shop.fast", "freshness": "20m"}, SLOW],
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_other_rules_apply_once_all_tables_have_the_deferred_records(
    shop: DeferredShop, rules: list[Mapping[str, str]]
) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.start(*rules)
    shop.put_both(2)
    shop.batch()
    assert shop.ids("fast") == shop.ids("slow") == [0, 1, 2]
    shop.put_both(3)
    shop.batch()  # the first by the new rules reads for all tables
    assert shop.ids("fast") == shop.ids("slow") == [0, 1, 2, 3]
    shop.put_both(4)
    shop.batch()
    deferred = {table for table in ("fast", "slow") if 4 not in shop.ids(table)}
    assert deferred == {table for table in ("fast", "slow") if shop.spec.freshness.interval("shop", table)}
    assert DeferredRanges.of(shop.offsets[-1]).rules == shop.spec.freshness
    shop.drain()
    assert shop.ids("fast") == shop.ids("slow") == [0, 1, 2, 3, 4]


def test_other_rules_without_new_records_read_what_was_deferred(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.start()
    assert shop.batch()
    assert shop.ids("slow") == [0, 1]
    assert not shop.batch()


def test_drift_of_a_table_that_is_due_reads_only_its_deferred_records_again(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.topics.put(row("slow", 1, note="a"), row("fast", 1))
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.topics.put(row("fast", 2), row("slow", 2, note="b"))
    shop.batch()
    assert shop.ids("slow") == [0, 1, 2]
    assert shop.ids("fast") == [0, 1, 2]
    assert shop.topics.read == [("t/0", 4, 6), ("t/0", 2, 6), ("t/0", 2, 6)]


def test_drift_of_a_table_without_freshness_does_not_read_deferred_records_again(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.topics.put(row("fast", 2, note="a"), row("slow", 2))
    shop.batch()
    assert shop.ids("slow") == shop.ids("fast") == [0, 1, 2]
    assert shop.topics.read == [("t/0", 4, 6), ("t/0", 2, 6), ("t/0", 4, 6)]


def test_the_progress_that_a_group_shows_is_that_of_all_tables(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shown: list[Any] = []
    shop.patch.setattr(type(shop.driver.reader.source), "mirror", lambda self, offsets: shown.append(offsets))
    shop.batch()
    assert shown[-1]["offsets"] == {"t": {"0": 2}}
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert shown[-1]["offsets"] == {"t": {"0": 4}}


def test_history_tables_keep_each_version_once(shop: DeferredShop) -> None:
    shop.start({**SLOW, "deletes": "history"})

    def version(number: int, name: str) -> str:
        message = json.loads(row("slow", number, name=name))
        return json.dumps({**message, "pkNames": ["id"]})

    shop.topics.put(version(1, "a"), row("fast", 1))
    shop.batch()
    shop.topics.put(version(1, "b"))
    shop.batch()
    shop.topics.put(version(1, "c"))
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.batch()
    shop.take()
    assert sorted(row["name"] for row in shop.rows("slow")) == ["a", "b", "c"]


def test_the_watermark_of_a_table_is_that_of_its_own_rows(shop: DeferredShop) -> None:
    tags = {"tag.automatic-creation": "watermark", "tag.creation-period": "daily"}
    shop.start(SLOW, sink={"table-options": tags})
    shop.put_both(0)
    shop.batch()
    for number in (1, 2):
        shop.topics.put(row("fast", number, time=number * 10_000), row("slow", number, time=number * 5000))
        shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert [shop.snapshots(table)[0].watermark for table in ("fast", "slow")] == [START + 19_999, START + 9999]


@pytest.mark.slow
def test_every_row_is_there_once_after_random_stories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, night: bool
) -> None:
    for seed in range(60 if night else 3):
        play(DeferredShop(tmp_path / str(seed), monkeypatch), seed)


def play(shop: DeferredShop, seed: int) -> None:
    """Random records, partitions, clocks, limits, crashes, rules and new checkpoints."""
    dice, tables = random.Random(seed), ("fast", "slow", "slow_too", "other")
    wanted: dict[str, list[int]] = {table: [] for table in tables}
    choices: list[list[Mapping[str, str]]] = [*RULES.values(), [SLOW]]
    settings: dict[str, Any] = {"max-batch": {"rows": "5"}} if seed % 2 else {}
    shop.start(SLOW, pipeline=settings)
    number = 0
    for step in range(60):
        match dice.choice(
            ["put", "put", "put", "batch", "batch", "batch", "batch", "repeat", "wait", "begin", "rules"]
        ):
            case "put":
                for _ in range(dice.randrange(1, 5)):
                    table, number = dice.choice(tables), number + 1
                    wanted[table].append(number)
                    note = {"note": "x"} if step > 30 and dice.random() < 0.1 else {}
                    shop.topics.put(row(table, number, **note), partition=dice.randrange(1 + step // 20))
            case "batch":
                shop.batch()
            case "repeat" if len(shop.offsets) > 1:
                shop.take()
            case "wait":
                shop.pass_time(dice.randrange(15) * MINUTE)
            case "begin" if shop.driver.reader.warehouse.tables("ods") and dice.random() < 0.5:
                settings |= {"resume-from-tables": "true"}
                shop.start(SLOW, checkpoint=f"checkpoint-{step}", pipeline=settings)
            case "rules":
                shop.start(*dice.choice(choices), checkpoint=shop.checkpoint, pipeline=settings)
    shop.drain()
    assert {table: shop.ids(table) for table in tables if wanted[table]} == {
        table: numbers for table, numbers in wanted.items() if numbers
    }
