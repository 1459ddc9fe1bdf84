"""A run that fails before its first batch: what `status` shows, and what is sent to the webhook."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, DecodeError, PenstockError, SchemaConflict, SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.pipelines.api.run import run_here
from penstock.pipelines.commands.main import main
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.failed_start import failed_starts_noted
from penstock.pipelines.monitor.failure_facts import failure_facts, failure_text
from penstock.pipelines.monitor.sent_failure import SentFailure
from penstock.pipelines.monitor.webhook import WebhookObserver
from tests.shop import Shop, insert


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the URL of a webhook, and the events that it receives."""
    got: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
    finally:
        server.shutdown()
        server.server_close()


def test_a_start_that_fails_is_shown_by_status_and_notified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    with receiver() as (url, events):
        spec = shop.spec(observe={"notify": {"webhook": url, "events": ["failed"]}}, pipeline={"until": "caught-up"})
        run_here(spec)
        assert events == []
        shutil.rmtree(tmp_path / "warehouse/ods.db/orders")
        with pytest.raises(PenstockError) as caught:
            run_here(spec)
        [event] = events
    assert (event["event"], event["error"]) == ("failed", type(caught.value).__name__)
    words = ["status", "shop", "--warehouse", shop.warehouse.warehouse, "--checkpoint", spec.checkpoint]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("shop   failed")
    assert caught.value.message in shown
    assert str(caught.value.hint)[:40] in shown


def test_the_first_start_of_a_pipeline_that_fails_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    spec = shop.spec(pipeline={"until": "caught-up"})
    with pytest.raises(ConfigError), failed_starts_noted(spec):
        raise ConfigError("the door is closed", hint="open it")
    words = ["status", "shop", "--warehouse", shop.warehouse.warehouse, "--checkpoint", spec.checkpoint]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("shop   failed")
    assert "ConfigError: the door is closed" in shown
    assert "open it" in shown
    run_here(spec)  # the checkpoint is still a new one
    assert main(words) == 0
    assert "door" not in capsys.readouterr().out


def test_a_start_that_a_stop_ends_has_not_failed(tmp_path: Path) -> None:
    with receiver() as (url, events):
        spec = Shop(tmp_path).spec(observe={"notify": {"webhook": url, "events": ["failed"]}})
        with pytest.raises(SourceError), failed_starts_noted(spec, lambda: True):
            raise SourceError("a stop ended the wait for the source", retryable=True)
        assert events == []
        assert CheckpointFolder(spec.checkpoint).status() is None
        # What a later start cannot mend is a failure, whenever it is found.
        with pytest.raises(ConfigError), failed_starts_noted(spec, lambda: True):
            raise ConfigError("the door is closed")
        assert [event["event"] for event in events] == ["failed"]


def test_a_start_that_fails_again_and_again_is_notified_once_in_a_while(tmp_path: Path) -> None:
    with receiver() as (url, events):
        notify = {"webhook": url, "events": ["failed"], "at-most-every": "1h"}
        spec = Shop(tmp_path).spec(observe={"notify": notify})
        for text in ("no", "no", "no", "never", "never"):
            with pytest.raises(ConfigError), failed_starts_noted(spec):
                raise ConfigError(text)
        # Another failure is another event.
        assert [event["text"] for event in events] == ["shop: it failed: no", "shop: it failed: never"]


def test_a_failure_is_sent_again_when_the_last_one_is_old(tmp_path: Path) -> None:
    now = [1000.0]
    sent = SentFailure(CheckpointFolder(str(tmp_path / "checkpoint")), lambda: now[0])
    seen = []
    for now[0] in (1000.0, 1059.9, 1060.0, 900.0):  # the last: the clock was set back
        seen.append(sent.is_new(ConfigError("no"), 60.0))
        if seen[-1]:
            sent.note(ConfigError("no"))
    assert seen == [True, False, True, True]


def test_a_failure_is_sent_if_the_checkpoint_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sent = SentFailure(CheckpointFolder(str(tmp_path / "file" / "checkpoint")))
    for _ in range(2):
        assert sent.is_new(ConfigError("no"), 60.0)
        sent.note(ConfigError("no"))
    folder = CheckpointFolder(str(tmp_path / "checkpoint"))
    folder.put_sent_failure({"error": "ConfigError: no", "at": None})
    assert SentFailure(folder).is_new(ConfigError("no"), 60.0)


def test_a_failure_that_has_not_arrived_is_sent_by_the_next_start(tmp_path: Path) -> None:
    """It was noted as sent before, and left out for `at-most-every` although nobody had received it."""
    failures, got = SentFailure(CheckpointFolder(str(tmp_path / "checkpoint"))), []

    def send(url: str, event: dict[str, Any]) -> None:
        got.append(event["event"])
        if len(got) == 1:
            raise OSError("the receiver restarts")

    for _ in range(3):
        WebhookObserver("shop", "http://hook", ["failed"], 3600.0, send, failures=failures).ended(ConfigError("no"))
    assert got == ["failed", "failed"]


def test_an_error_of_the_store_does_not_replace_the_error_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: CheckpointFolder) -> None:
        raise pa.ArrowInvalid("no such region")

    monkeypatch.setattr(CheckpointFolder, "status", fail)
    with pytest.raises(ConfigError, match="the door is closed"), failed_starts_noted(Shop(tmp_path).spec()):
        raise ConfigError("the door is closed")


@pytest.mark.parametrize("last", [{"state": "running", "host": "elsewhere", "pid": 1}, {"state": "running"}])
def test_the_status_of_another_process_is_not_replaced(tmp_path: Path, last: dict[str, Any]) -> None:
    spec = Shop(tmp_path).spec()
    folder = CheckpointFolder(spec.checkpoint)
    heard = time.time_ns() // 1_000_000
    folder.put_status({"pid": os.getpid(), "host": os.uname().nodename, "heard_millis": heard} | last)
    before = folder.status()
    with pytest.raises(ConfigError), failed_starts_noted(spec):
        raise ConfigError("no")
    assert folder.status() == before


def test_the_status_of_a_process_that_is_silent_is_replaced(tmp_path: Path) -> None:
    spec = Shop(tmp_path).spec()
    folder = CheckpointFolder(spec.checkpoint)
    now = time.time_ns() // 1_000_000
    # Of a container that was started again: it has another host name, or the same one and the same process number.
    for host in ("elsewhere", os.uname().nodename):
        folder.put_status({"state": "running", "pid": os.getpid(), "host": host, "heard_millis": now - 61_000})
        with pytest.raises(ConfigError), failed_starts_noted(spec):
            raise ConfigError("no")
        assert (folder.status() or {})["state"] == "failed"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            SchemaConflict("It does not fit.", table="ods.a", reason="a < b"),
            "It does not fit (table ods.a; reason a < b)",
        ),
        (SourceError("no access", server="db:3306", user="cdc"), "no access (server db:3306; user cdc)"),
        (
            DecodeError("a bad record", topic="t", offset=0, record="secret", reason="secret"),
            "a bad record (topic t; offset 0)",
        ),
        (
            SourceError("cannot be read", table="a.b", reason="ValueError(\"invalid literal: 'it's secret'\")"),
            "cannot be read (table a.b; reason ValueError(...)",
        ),
        (
            SourceError("failed", reason='invalid input for type integer: "a"\nCONTEXT: a'),
            "failed (reason invalid input for type integer: ...)",
        ),
        (
            ConnectionLost("cannot be reached", server="db:1", reason='FATAL: no user "cdc"\nFATAL: again'),
            'cannot be reached (server db:1; reason FATAL: no user "cdc")',
        ),
        (OSError("first\nsecond"), "first"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_failure_names_its_place_and_no_values_of_rows(error: Exception, text: str) -> None:
    assert failure_text(error) == text
    assert failure_facts(error)["error"] == f"{type(error).__name__}: {text}"
