"""Tables with a freshness: bad records of deferred ranges, which are read twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import DecodeError, SourceError
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.source import Range
from tests.deferred_shop import MINUTE, SLOW, DeferredShop, TopicsSource, row

LETTERS = {"errors": {"bad-record": "dead-letter"}}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeferredShop:
    return DeferredShop(tmp_path, monkeypatch)


def letters(shop: DeferredShop) -> list[tuple[str, str | None]]:
    rows = shop.rows("__penstock_dead_letters")
    return sorted((row["source_position"], row["target_table"]) for row in rows)


def test_each_bad_record_is_counted_and_kept_once(shop: DeferredShop) -> None:
    counts: list[tuple[int, int, int, int]] = []
    shop.start(SLOW, **LETTERS)
    shop.driver.on_batch = lambda identity, report: counts.append(
        (
            report.bad_count,
            report.messages,
            report.messages_again,
            report.passed_over["messages.unreadable.again"],
        )
    )
    shop.put_both(0)
    shop.batch()
    shop.topics.put("not JSON", row("slow", 1))
    shop.topics.put(row("fast", 2).replace('"2"', '"two"'), row("slow", 3).replace('"3"', '"three"'))
    shop.batch()
    assert letters(shop) == [("t/0@2", None), ("t/0@4", "ods.fast")]
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert letters(shop) == [("t/0@2", None), ("t/0@4", "ods.fast"), ("t/0@5", "ods.slow")]
    assert counts == [(0, 2, 0, 0), (2, 4, 0, 0), (1, 0, 4, 1)]
    assert shop.ids("slow") == [0, 1]


def test_bad_records_and_drift_of_a_due_table_in_one_batch(shop: DeferredShop) -> None:
    shop.start(SLOW, **LETTERS)
    shop.put_both(0)
    shop.batch()
    shop.topics.put("not JSON", row("slow", 1, note="a"), row("slow", 2).replace('"2"', '"two"'))
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.topics.put("nor this", row("fast", 3))
    shop.batch()
    assert letters(shop) == [("t/0@2", None), ("t/0@4", "ods.slow"), ("t/0@5", None)]
    assert shop.ids("slow") == [0, 1]
    assert shop.ids("fast") == [0, 3]


def test_a_bad_record_that_was_skipped_does_not_fail_when_it_is_read_again(shop: DeferredShop) -> None:
    shop.start(SLOW, errors={"bad-record": "skip"})
    shop.put_both(0)
    shop.batch()
    shop.topics.put("not JSON", row("slow", 1))
    shop.batch()
    shop.start(SLOW)  # bad-record: fail
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert shop.ids("slow") == [0, 1]


def spoil(shop: DeferredShop, *offsets: int) -> None:
    """Make records unreadable after they were read, as a schema registry does that loses a schema."""
    for offset in offsets:
        shop.topics.records["t", 0][offset] = b"not JSON"


def test_a_record_that_only_the_second_reading_cannot_read_becomes_a_dead_letter(shop: DeferredShop) -> None:
    counts: list[tuple[int, int]] = []
    other = {**SLOW, "source-table": "shop.slower", "freshness": "1h"}
    shop.start(other, SLOW, **LETTERS)
    shop.driver.on_batch = lambda identity, report: counts.append(
        (report.bad_count, report.passed_over["messages.unreadable.again"])
    )
    shop.topics.put(row("fast", 0), row("slow", 0), row("slower", 0))
    shop.batch()
    shop.topics.put("not JSON", row("slow", 1), row("slow", 2))
    shop.batch()
    spoil(shop, 4)
    shop.pass_time(10 * MINUTE)
    shop.topics.put("nor this")
    shop.batch()
    assert letters(shop) == [("t/0@3", None), ("t/0@4", None), ("t/0@6", None)]
    assert shop.ids("slow") == [0, 2]
    shop.pass_time(60 * MINUTE)  # the third reading finds all of them in the table
    shop.batch()
    assert letters(shop) == [("t/0@3", None), ("t/0@4", None), ("t/0@6", None)]
    assert counts == [(0, 0), (1, 0), (2, 2), (0, 3)]


@pytest.mark.parametrize("errors", [LETTERS, {"errors": {"bad-record": "skip"}}, {}], ids=["letters", "skip", "fail"])
def test_a_record_that_only_one_range_of_a_batch_can_read_fails_the_batch(
    shop: DeferredShop, monkeypatch: pytest.MonkeyPatch, errors: dict[str, Any]
) -> None:
    shop.start(SLOW, **errors)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.put_both(2)
    read = TopicsSource.read

    def then_spoiled(self: TopicsSource, range_: Range) -> Iterator[FetchedMessages]:
        yield from read(self, range_)
        spoil(shop, 5)

    with monkeypatch.context() as patch:
        patch.setattr(TopicsSource, "read", then_spoiled)
        with pytest.raises(SourceError, match="for some tables of the batch and not for others") as failed:
            shop.batch()
    assert failed.value.retryable
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1], [0])
    shop.topics.records["t", 0][5] = row("slow", 2).encode()
    shop.take()
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1, 2], [0, 1, 2])


def test_many_records_that_only_the_second_reading_cannot_read_stop_the_run(shop: DeferredShop) -> None:
    shop.start(SLOW, **LETTERS)
    shop.put_both(0)
    shop.batch()
    shop.put_both(*range(1, 12))
    shop.batch()
    spoil(shop, *range(2, 24))
    shop.pass_time(10 * MINUTE)
    with pytest.raises(DecodeError, match="22 of 22 records are bad"):
        shop.batch()
    assert shop.ids("slow") == [0]
