"""A bounded run that has nothing to read ends without Spark; in all other cases Spark starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StoreError, TableCorrupt
from penstock.pipelines.job import build, idle_run
from penstock.pipelines.job.idle_run import IdleRun
from penstock.pipelines.job.job import RetryPolicy
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.read import BatchReader
from tests.here import note_as_spark_does, run
from tests.shop import Shop, insert

# All snapshots but the newest expire.
FEW_SNAPSHOTS = {
    "bucket": "1",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1 ms",
}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline that has committed what there is."""
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    carried(shop)
    return shop


def carried(shop: Shop, **sections: Any) -> None:
    run(shop.spec(**sections))
    note_as_spark_does(shop.folder / "checkpoint")


def idle(shop: Shop, **sections: Any) -> IdleRun | None:
    return idle_run.idle_run(build.ready(shop.spec(**sections)), folder(shop))


def folder(shop: Shop) -> CheckpointFolder:
    return CheckpointFolder(f"{shop.folder}/checkpoint")


def test_a_run_that_has_caught_up_needs_no_spark(shop: Shop) -> None:
    found = idle(shop)
    assert found is not None
    assert found.tables == ["ods.orders"]
    found.run()
    assert shop.snapshots("orders") == 1


def add_a_file(shop: Shop) -> None:
    shop.put("2.json", insert("orders", {"id": 2}))


def die_between_plan_and_commit(shop: Shop) -> None:
    add_a_file(shop)
    number = folder(shop).last_planned
    assert number is not None
    (shop.folder / f"checkpoint/offsets/{number + 1}").write_text('v1\n{}\n{"batch": 2}')


def die_before_spark_noted_the_batch(shop: Shop) -> None:
    (shop.folder / f"checkpoint/commits/{folder(shop).last_planned}").unlink()


def lose_the_query(shop: Shop) -> None:
    (shop.folder / "checkpoint/metadata").unlink()


def cut_the_query_short(shop: Shop) -> None:
    (shop.folder / "checkpoint/metadata").write_text('{"id"')


def write_another_version(shop: Shop) -> None:
    path = shop.folder / f"checkpoint/offsets/{folder(shop).last_planned}"
    path.write_text(path.read_text().replace("v1", "v3"))


def cut_a_commit_short(shop: Shop) -> None:
    (shop.folder / f"checkpoint/commits/{folder(shop).last_planned}").write_text("")


def pause(shop: Shop) -> None:
    folder(shop).signal("paused")


def ask_for_a_table(shop: Shop) -> None:
    folder(shop).signal("snapshot-1.json", ["ods.orders"])


def park_a_table(shop: Shop) -> None:
    record = {"table": "ods.orders", "batch": 0, "since_millis": 1, "error": "DecodeError", "reason": "no number"}
    folder(shop).put_parked([record])


@pytest.mark.parametrize(
    "change",
    [
        add_a_file,
        die_between_plan_and_commit,
        die_before_spark_noted_the_batch,
        lose_the_query,
        cut_the_query_short,
        write_another_version,
        cut_a_commit_short,
        pause,
        ask_for_a_table,
        park_a_table,
    ],
)
def test_spark_starts_if_there_is_something_to_do_or_if_that_is_not_certain(
    change: Callable[[Shop], None], shop: Shop
) -> None:
    change(shop)
    assert idle(shop) is None


def test_spark_starts_for_a_new_pipeline(tmp_path: Path) -> None:
    assert idle(Shop(tmp_path)) is None


def test_spark_starts_for_a_run_without_end(shop: Shop) -> None:
    assert idle(shop, pipeline={"until": "forever"}) is None


def test_spark_starts_if_ranges_were_deferred(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source has nothing new, but batches are not only planned from what is new at the source."""
    monkeypatch.setattr(BatchReader, "latest_offsets", lambda self, start, limit, until: start | {"freshness": {}})
    assert idle(shop) is None


def test_spark_starts_if_the_source_does_not_answer(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    job = build.ready(shop.spec())
    shop.inbox.rename(shop.folder / "away")
    with caplog.at_level(logging.INFO):
        assert idle_run.idle_run(job, folder(shop)) is None
    assert "event=not_known_if_caught_up reason=the source folder does not exist" in caplog.text


@pytest.mark.parametrize("recovery", [{"reread_all": True}, {"reread": ("ods.orders",)}], ids=["all", "one"])
def test_spark_starts_if_tables_are_to_be_read_again(recovery: dict[str, Any], shop: Shop) -> None:
    job = build.ready(shop.spec())
    changed = replace(job, recovery=replace(job.recovery, **recovery))
    assert idle_run.idle_run(changed, folder(shop)) is None


def test_spark_starts_if_a_compaction_beside_the_batches_is_due(shop: Shop) -> None:
    sink = {"compaction": {"mode": "background"}, "table-options": {"bucket": "1"}}
    for number in range(2, 8):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        carried(shop, sink=sink)
    assert idle(shop, sink=sink) is None
    assert idle(shop) is not None  # batches that compact by themselves leave nothing to do


def test_tables_are_maintained(tmp_path: Path) -> None:
    shop, sink = Shop(tmp_path), {"table-options": FEW_SNAPSHOTS}
    for number in range(4):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        carried(shop, sink=sink)
    before = shop.snapshots("orders")
    found = idle(shop, sink=sink)
    assert found is not None
    found.run()
    assert (before, shop.snapshots("orders")) == (4, 1)


def test_a_store_that_fails_is_tried_again_as_often_as_configured_in_the_file(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Exception] = [StoreError("503"), StoreError("503"), TableCorrupt("damaged")]
    monkeypatch.setattr(idle_run, "maintained", lambda *given: (_ for _ in ()).throw(left.pop(0)))
    found = idle(shop)
    assert found is not None
    pauses: list[float] = []
    found.job, found.sleep = replace(found.job, retry=RetryPolicy(5, 1.0, 60.0)), pauses.append
    with pytest.raises(TableCorrupt):
        found.run()
    assert pauses == [1, 2]


def test_the_source_is_queried_from_the_end_of_the_newest_batch(shop: Shop) -> None:
    add_a_file(shop)
    carried(shop)
    assert (folder(shop).finished_offsets() or {})["batch"] == 2
    assert idle(shop) is not None
