"""The driver's thread for status and signals, with a run that only records its calls."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import DecodeError, SourceError, StoreError
from penstock.ingest.source import Offsets
from penstock.pipelines.config.load import parsed
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.batch_logs import BatchLogs, CheckpointProgress
from penstock.pipelines.ledger.checkpoint_folder import PAUSED, STOP, CheckpointFolder
from penstock.pipelines.monitor import run_monitor as watching
from penstock.pipelines.monitor.observers import observed
from penstock.pipelines.monitor.run_monitor import RunMonitor
from penstock.pipelines.monitor.schema_changes import SeenSchemas
from tests import waiting
from tests.here import run
from tests.shop import Shop, change, insert


class Noted:
    def __init__(self) -> None:
        self.words: list[str] = []

    @property
    def is_resting(self) -> bool:
        return self.words[-1:] == ["pause"]

    def stop(self) -> None:
        self.words.append("stop")

    def pause(self) -> None:
        self.words.append("pause")

    def resume(self) -> None:
        self.words.append("resume")

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return {}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def watch_of(shop: Shop, noted: Noted, **more: Any) -> RunMonitor:
    folder = CheckpointFolder(f"{shop.folder}/checkpoint")
    return RunMonitor("shop", folder, shop.warehouse, noted, noted, 1.0, **more)


def until(true: Any) -> None:
    waiting.until(true, "what the signal does")


def test_signals_are_applied_and_a_pause_survives_a_restart(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    noted = Noted()
    with watch_of(shop, noted) as watch:
        watch.folder.signal(PAUSED)
        until(lambda: noted.words == ["pause"])
    later = Noted()
    with watch_of(shop, later) as watch:
        assert later.words == ["pause"]
        until(lambda: watch.facts["state"] == "paused")
        watch.folder.clear_signal(PAUSED)
        until(lambda: later.words[-1] == "resume")
        watch.folder.signal(STOP)
        until(lambda: later.words[-1] == "stop")
    assert (watch.folder.status() or {})["state"] == "stopped"


def ended_late(watch: RunMonitor, waits: threading.Event, goes_on: threading.Event) -> dict[str, Any]:
    """End a run whose thread waits, and return the status that remains once it goes on beside the next run."""
    with watch:
        watch._end = {}
        assert waits.wait(waiting.LIMIT_S)
    assert (watch.folder.status() or {})["state"] == "stopped"
    watch.folder.put_status({"state": "running", "pid": 7})
    watch.folder.signal(STOP)
    goes_on.set()
    assert watch._thread is not None
    waiting.ended(watch._thread)
    return watch.folder.status() or {}


@pytest.mark.parametrize("place", ["source", "store"])
def test_a_thread_that_still_waits_leaves_status_and_signals_to_the_next_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(watching, "_LAST_LOOK_S", 0.01)
    waits, goes_on, noted = threading.Event(), threading.Event(), Noted()
    watch = watch_of(shop, noted, look_seconds=0.0)
    signals = CheckpointFolder.signals

    def wait() -> None:
        waits.set()
        goes_on.wait(waiting.LIMIT_S)

    def slow(folder: CheckpointFolder) -> Any:
        if threading.current_thread() is watch._thread:
            wait()
        return signals(folder)

    if place == "source":
        monkeypatch.setattr(noted, "lag", lambda offsets: wait() or {})
    else:
        monkeypatch.setattr(CheckpointFolder, "signals", slow)
    assert ended_late(watch, waits, goes_on) == {"state": "running", "pid": 7}
    assert watch.folder.signals().stop
    assert noted.words == []


def test_an_unread_stop_signal_does_not_stop_the_next_run(shop: Shop) -> None:
    noted = Noted()
    CheckpointFolder(f"{shop.folder}/checkpoint").signal(STOP)
    with watch_of(shop, noted):
        pass
    assert noted.words == []


def test_batches_are_counted_by_table_and_schema_changes_noted(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 2}))
    with watch_of(shop, Noted()) as watch:
        run(shop.spec(), on_batch=watch.on_batch)
        shop.put("2.json", insert("orders", {"id": 3, "q1": 4}))
        run(shop.spec(), on_batch=watch.on_batch)
    facts = watch.folder.status() or {}
    assert facts["rows"] == 3
    assert facts["tables"]["ods.orders"]["rows"] == 2
    assert facts["tables"]["ods.orders"]["note"].startswith("schema 1")
    assert [fact["kind"] for fact in facts["recent"]] == ["schema"]


def test_a_repeated_batch_is_not_slow_because_an_earlier_run_planned_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), "not a message")
    with pytest.raises(DecodeError):
        run(shop.spec())
    later = watching._now() + 3_600_000
    monkeypatch.setattr(watching, "_now", lambda: later)
    with watch_of(shop, Noted()) as watch, caplog.at_level(logging.INFO):
        run(shop.spec(errors={"bad-record": "skip"}), on_batch=watch.on_batch)
    assert "event=batch number=0 records=1 " in caplog.text
    assert float(caplog.text.partition(" seconds=")[2].split()[0]) < 60


def test_the_error_of_a_run_is_recorded(shop: Shop) -> None:
    with pytest.raises(SourceError), watch_of(shop, Noted()) as watch:
        raise SourceError("the broker is gone")
    assert (watch.folder.status() or {})["error"] == "SourceError: the broker is gone"


def test_a_driver_that_ends_for_another_one_leaves_the_status_to_it(shop: Shop) -> None:
    with watch_of(shop, Noted()) as other:
        with pytest.raises(CheckpointInUse), watch_of(shop, Noted()):
            raise CheckpointInUse.by_another(other.folder.location)
        assert (other.folder.status() or {})["state"] == "running"


def test_a_schema_that_cannot_be_read_after_a_batch_does_not_stop_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    with watch_of(shop, Noted()) as watch:
        run(shop.spec(), on_batch=watch.on_batch)
        shop.put("2.json", insert("orders", {"id": 2, "q1": 4}))
        with monkeypatch.context() as away:

            def failing(*_: object) -> None:
                raise StoreError("the store answered 503")

            away.setattr(SeenSchemas, "changes", failing)
            run(shop.spec(), on_batch=watch.on_batch)
        assert "event=observing_failed reason=the store answered 503" in caplog.text
        shop.put("3.json", insert("orders", {"id": 3}))
        run(shop.spec(), on_batch=watch.on_batch)
    facts = watch.folder.status() or {}
    assert (facts["rows"], facts["tables"]["ods.orders"]["note"][:8]) == (3, "schema 1")


def test_an_observer_that_fails_does_not_stop_the_run(shop: Shop) -> None:
    class Broken:
        def batch(self, facts: object) -> None:
            raise OSError("disk full")

        def looked(self, look: object) -> None: ...

        def ended(self, error: object) -> None: ...

    shop.put("1.json", insert("orders", {"id": 1}))
    with watch_of(shop, Noted(), observers=[Broken()]) as watch:
        run(shop.spec(), on_batch=watch.on_batch)
    assert shop.ids("orders") == [1]


def test_records_and_merged_rows_are_logged_separately(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.put("1.json", *(insert("orders", {"id": number % 2}) for number in range(6)))
    with caplog.at_level("INFO"), watch_of(shop, Noted()) as watch:
        run(shop.spec(), on_batch=watch.on_batch)
    [line] = [message for message in caplog.messages if message.startswith("event=batch ")]
    assert "records=6 rows=2 tables=1" in line
    assert "records_per_second=" in line


def test_rows_that_a_rule_drops_are_logged_with_their_updates(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    rule = {"source-table": "shop.orders", "condition": "q1 > 0", "action": "drop", "name": "amount"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 5}), insert("orders", {"id": 2, "q1": 0}))
    shop.put("2.json", change("UPDATE", "orders", {"id": 1, "q1": -1}, old=[{"q1": "5"}]))
    with caplog.at_level("INFO"), watch_of(shop, Noted()) as watch:
        run(shop.spec(expect=[rule]), on_batch=watch.on_batch)
    assert shop.rows("orders") == [{"id": 1, "q1": 5}]
    lines = [message for message in caplog.messages if message.startswith("event=expectations_not_met ")]
    assert [line.partition("rows=")[2] for line in lines] == ["2 updates_dropped=1 rules=drop.amount 2"]


class Backlog(Noted):
    def lag(self, offsets: Offsets) -> dict[str, int]:
        if offsets == {"offsets": {}}:
            raise SourceError("no broker answers")
        return {"t/0": 400, "t/1": 94} if offsets else {"t/0": 7_000, "t/1": 0}


@pytest.mark.parametrize(
    ("reached", "messages"),
    [
        ({"offsets": {"t": {"0": 7}}}, ["event=backlog records=494 partitions=2"]),
        ({"offsets": {}}, ["event=no_backlog reason=no broker answers"]),
        (None, ["event=backlog records=7000 partitions=2"]),
    ],
)
def test_a_kafka_pipeline_logs_its_backlog_at_the_start(
    shop: Shop,
    reached: Offsets | None,
    messages: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source: dict[str, Any] = {"type": "kafka", "topic": ["t"], "value.format": "canal-json"}
    source["properties"] = {"bootstrap.servers": "localhost:9"}
    sink = {"database": "d", "catalog": {"warehouse": "/w"}}
    spec = parsed({"source": source, "pipeline": {"name": "shop"}, "sink": sink})
    monkeypatch.setattr(BatchLogs, "progress", lambda folder: CheckpointProgress(0, 0, reached))
    with caplog.at_level("INFO"), watch_of(shop, Backlog()) as watch, observed(spec, watch):
        pass
    assert [message for message in caplog.messages if "backlog" in message] == messages


def test_a_pipeline_of_tables_logs_no_backlog_before_it_has_read_their_rows(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the first batch are not in the lag of a table: a first run with three rows logged rows=0."""
    sink = {"database": "d", "catalog": {"warehouse": "/w"}}
    spec = parsed({"source": {"type": "table", "table": "a.b"}, "pipeline": {"name": "shop"}, "sink": sink})
    for reached, logged in ((None, False), ({"tables": {}}, True)):
        caplog.clear()
        monkeypatch.setattr(BatchLogs, "progress", lambda folder, at=reached: CheckpointProgress(0, 0, at))
        with caplog.at_level("INFO"), watch_of(shop, Backlog()) as watch, observed(spec, watch):
            pass
        assert any("event=backlog rows=494" in message for message in caplog.messages) == logged
