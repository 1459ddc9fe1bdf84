"""Tables with a freshness: crashes, new checkpoints, parked tables, and deferred records that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PositionLost, StoreError
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.errors import CheckpointMismatch
from tests.deferred_shop import MINUTE, SLOW, DeferredShop, row


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeferredShop:
    return DeferredShop(tmp_path, monkeypatch)


@pytest.mark.parametrize("dies_at", ["ods.fast", "ods.slow"])
def test_a_crash_between_the_commits_of_two_tables(
    shop: DeferredShop, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.put_both(2)
    shop.pass_time(10 * MINUTE)
    shop.plan()
    commit: Any = Commits._commit

    def dying(commits: Commits, store: Any, *rest: Any) -> Any:
        if store.name == dies_at:
            raise StoreError("the machine dies")
        return commit(commits, store, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Commits, "_commit", dying)
        with pytest.raises(StoreError):
            shop.take()
    shop.start(SLOW)
    shop.take()
    assert shop.ids("fast") == shop.ids("slow") == [0, 1, 2]
    assert len(shop.snapshots("slow")) == 2


def test_a_new_checkpoint_resumes_from_the_tables(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    with pytest.raises(CheckpointMismatch):
        shop.start(SLOW, checkpoint="other")
    shop.start(SLOW, checkpoint="another", pipeline={"resume-from-tables": "true"})
    shop.put_both(2)
    while shop.batch():
        pass
    assert shop.ids("fast") == [0, 1, 2]
    assert shop.ids("slow") == [0]
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert shop.ids("slow") == [0, 1, 2]


def die_between_commits(shop: DeferredShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit a batch to one of its two tables only."""
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.put_both(2)
    shop.pass_time(10 * MINUTE)
    shop.plan()
    commit: Any = Commits._commit

    def dying(commits: Commits, store: Any, *rest: Any) -> Any:
        if store.name == "ods.slow":
            raise StoreError("the machine dies")
        return commit(commits, store, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Commits, "_commit", dying)
        with pytest.raises(StoreError):
            shop.take()


def test_resuming_from_tables_repeats_a_batch_that_some_tables_lack(
    shop: DeferredShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_between_commits(shop, monkeypatch)
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1, 2], [0])
    shop.start(SLOW, checkpoint="another", pipeline={"resume-from-tables": "true"})
    shop.batch()
    assert shop.ids("fast") == shop.ids("slow") == [0, 1, 2]


def test_a_parked_table_catches_up_with_its_deferred_ranges(shop: DeferredShop) -> None:
    shop.start(SLOW, errors={"isolate": "true"})
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.driver.parking.park("ods.slow", 2, ConfigError("parked by the test"))
    shop.driver.targets.leave_out(["ods.slow"])
    shop.pass_time(10 * MINUTE)
    shop.put_both(2)
    shop.batch()
    shop.put_both(3)
    shop.batch()
    assert shop.ids("fast") == [0, 1, 2, 3]
    assert shop.ids("slow") == [0]
    shop.driver.catch_up()
    assert shop.ids("slow") == [0, 1, 2]
    shop.drain()
    assert shop.ids("slow") == [0, 1, 2, 3]


def test_records_that_are_lost_before_they_are_due_are_an_error_that_names_the_freshness(shop: DeferredShop) -> None:
    shop.start(SLOW)
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.topics.first["t", 0] = 3
    shop.put_both(2)
    shop.batch()
    assert shop.ids("fast") == [0, 1, 2]
    shop.pass_time(10 * MINUTE)
    with pytest.raises(PositionLost) as caught:
        shop.batch()
    facts = caught.value.facts
    assert (facts["topic"], facts["partition"], facts["stopped_at"]) == ("t", 0, 2)
    assert facts["deferred_by_freshness"] == "10m"
    shop.start(SLOW, pipeline={"accept-gap": "true"})
    shop.batch()
    assert shop.ids("slow") == [0, 1, 2]  # record 2 was of the other table
    shop.put_both(3)
    shop.drain()
    assert shop.ids("slow") == shop.ids("fast") == [0, 1, 2, 3]


def test_a_gap_of_all_tables_is_a_gap_of_those_deferred(shop: DeferredShop) -> None:
    shop.start(SLOW, pipeline={"accept-gap": "true"})
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.put_both(2, 3)
    shop.topics.first["t", 0] = 6
    shop.batch()
    shop.put_both(4)
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1, 3, 4], [0, 3, 4])
    shop.pass_time(10 * MINUTE)
    assert not shop.batch()


def test_a_topic_that_was_made_again_is_read_from_its_beginning(shop: DeferredShop) -> None:
    shop.start(SLOW, pipeline={"accept-gap": "true"})
    shop.put_both(0)
    shop.batch()
    shop.put_both(1)
    shop.batch()
    shop.topics.records["t", 0] = []
    shop.topics.ids["t"] = "2"
    shop.put_both(2, 3, 4)
    shop.batch()
    shop.pass_time(10 * MINUTE)
    shop.batch()
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 1, 2, 3, 4], [0, 2, 3, 4])


def test_a_topic_that_vanished_with_what_was_deferred(shop: DeferredShop) -> None:
    shop.start(SLOW, pattern=True)
    shop.put_both(0)
    shop.topics.put(row("slow", 1), topic="u")
    shop.batch()
    shop.topics.put(row("slow", 2), topic="u")
    shop.batch()
    del shop.topics.records["u", 0]
    shop.pass_time(10 * MINUTE)
    with pytest.raises(PositionLost) as caught:
        shop.batch()
    assert caught.value.facts["topic"] == "u"
    assert caught.value.facts["deferred_by_freshness"] == "10m"
    shop.start(SLOW, pattern=True, pipeline={"accept-gap": "true"})
    shop.put_both(3)
    shop.batch()
    assert (shop.ids("fast"), shop.ids("slow")) == ([0, 3], [0, 1, 3])
    shop.pass_time(10 * MINUTE)
    assert not shop.batch()
