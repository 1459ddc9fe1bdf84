"""Partitions marked as done: by hand, by the clock, by the watermark, after a batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.errors import ConfigError, SourceError
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.maintenance.done_partitions import mark_due
from penstock.table.maintenance.upkeep import keep_up
from tests.unit.table.tables import new_table, rows
from tests.wire_server import http_reply, listening

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]
RULE = {"partition.time-interval": "1 d", "partition.idle-time-to-done": "1 h"}


def millis(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def at(table: Table, text: str) -> Table:
    moment = millis(text)
    ambient = replace(table.store.ambient, now_millis=lambda: moment, zone_offset_millis=lambda _now: 0)
    return Table(replace(table.store, ambient=ambient))


def filled(folder: Path, *days: str, options: dict[str, str] | None = None, watermark: str | None = None) -> Table:
    """Rows of these days, written at noon of the last one."""
    table = new_table(
        folder, COLUMNS, keys=("dt", "id"), partitions=("dt",), options={"bucket": "1", **(options or {})}
    )
    with at(table, f"{days[-1]}T12:00").writer("u") as writer:
        writer.write(rows(table, *((day, 1) for day in days)))
        writer.commit(1, watermark=millis(watermark) if watermark else None)
    return table


def marked(table: Table) -> set[str]:
    return {path.parent.name.removeprefix("dt=") for path in Path(table.path).glob("*/_SUCCESS")}


def test_a_success_file_keeps_its_creation_time(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-01", "2026-01-02")
    assert at(table, "2026-01-05").mark_partitions_done([{"dt": "2026-01-02"}]) == [{"dt": "2026-01-02"}]
    assert marked(table) == {"2026-01-02"}
    at(table, "2026-01-06").mark_partitions_done([{"dt": "2026-01-02"}])
    times = json.loads((Path(table.path) / "dt=2026-01-02" / "_SUCCESS").read_text())
    assert times == {"creationTime": millis("2026-01-05"), "modificationTime": millis("2026-01-06")}
    with pytest.raises(ConfigError, match="no partition with these values"):
        table.mark_partitions_done([{"dt": "x"}])


def test_a_daily_partition_is_done_after_the_idle_time(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-01", "2026-01-02", options=RULE)
    first = keep_up(at(table, "2026-01-03T00:59").store)
    assert marked(table) == {"2026-01-01"}
    assert keep_up(at(table, "2026-01-03T01:00").store, first).marked_done == ()
    assert keep_up(at(table, "2026-01-03T01:01").store, first).marked_done == ({"dt": "2026-01-02"},)
    assert mark_due(at(table, "2026-01-09").store) == []  # both are marked


@pytest.mark.slow
def test_all_partitions_done_between_two_checks_are_marked(tmp_path: Path) -> None:
    days = [str(date.fromordinal(date(2025, 1, 1).toordinal() + number)) for number in range(130)]
    table = filled(tmp_path, *days, options=RULE)
    assert len(mark_due(at(table, "2026-01-01").store, since=0)) == len(marked(table)) == 130


def test_late_rows_mark_a_partition_again(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-01", options=RULE)
    done = keep_up(at(table, "2026-01-03").store)
    with at(table, "2026-01-03T06:00").writer() as writer:
        writer.write(rows(table, ("2026-01-01", 2)))
        writer.commit()
    assert keep_up(at(table, "2026-01-03T06:59").store, done).marked_done == ()
    assert keep_up(at(table, "2026-01-03T07:01").store, done).marked_done == ({"dt": "2026-01-01"},)
    assert mark_due(at(table, "2026-01-03T07:02").store) == []


@pytest.mark.parametrize("mode", ["process-time", "watermark"])
def test_rows_that_were_written_before_a_check_and_committed_after_it_are_marked(tmp_path: Path, mode: str) -> None:
    """As in a batch that takes longer than the idle time, with rows for a day that is over."""
    options = {**RULE, "partition.mark-done-action.mode": mode, "partition.idle-time-to-done": "1 min"}
    table = filled(tmp_path, "2026-01-01", options=options, watermark="2026-01-03")
    with at(table, "2026-01-03T06:00").writer("u") as writer:
        writer.write(rows(table, ("2026-01-01", 2)))
        messages = writer.prepare()
    at(table, "2026-01-03T06:05").mark_partitions_done([{"dt": "2026-01-01"}])
    done = keep_up(at(table, "2026-01-03T06:10").store)
    assert done.marked_done == ()
    late = at(table, "2026-01-03T06:11")
    Committer(late.store, "u").commit(messages, 2, watermark=millis("2026-01-03"))
    done = keep_up(at(table, "2026-01-03T06:12").store, done)
    assert done.marked_done == ({"dt": "2026-01-01"},)
    assert keep_up(at(table, "2026-01-03T06:13").store, done).marked_done == ()


def test_watermarks_can_decide(tmp_path: Path) -> None:
    options = {**RULE, "partition.mark-done-action.mode": "watermark"}
    table = filled(tmp_path, "2026-01-01", "2026-01-02", options=options, watermark="2026-01-02T01:30")
    assert marked(table) == {"2026-01-01"}  # by the writer, after its commit
    assert mark_due(at(table, "2026-02-01").store) == []
    assert mark_due(filled(tmp_path / "none", "2026-01-01", options=options).store) == []


def test_a_batch_marks_its_written_partitions(tmp_path: Path) -> None:
    table = new_table(
        tmp_path,
        COLUMNS,
        keys=("dt", "id"),
        partitions=("dt",),
        options={"bucket": "1", "partition.end-input-to-done": "true"},
    )
    for day in ("2026-01-01", "2026-01-02"):
        with table.writer() as writer:
            writer.write(rows(table, (day, 1)))
            writer.commit()
        assert day in marked(table)


def test_actions_of_a_metastore_are_refused(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-01", options={"partition.mark-done-action": "success-file,done-partition"})
    with pytest.raises(ConfigError, match="notifies a metastore"):
        table.mark_partitions_done([{"dt": "2026-01-01"}])


class _Listener(BaseHTTPRequestHandler):
    result = "SUCCESS"
    seen: list[dict[str, str]] = []  # noqa: RUF012 -- of the one test that listens

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(json.loads(body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"result": self.result}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/done"
        server.shutdown()


@pytest.mark.slow
def test_a_partition_done_by_watermark_is_reported_once(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Listener, "seen", [])
    options = {**RULE, "partition.mark-done-action.mode": "watermark", "partition.mark-done-action": "http-report"}
    options |= {"partition.mark-done-action.http.url": url, "write-only": "true"}
    table = filled(tmp_path, "2026-01-01", "2026-01-02", options=options, watermark="2026-01-02T01:30")
    done = keep_up(at(table, "2026-01-03").store, write_only=False)
    assert done.marked_done == ({"dt": "2026-01-01"},)
    done = keep_up(at(table, "2026-01-03T01:00").store, done, write_only=False)
    assert done.marked_done == ()
    with at(table, "2026-01-03T02:00").writer("u") as writer:
        writer.write(rows(table, ("2026-01-01", 9)))
        writer.commit(2, watermark=millis("2026-01-03T01:01"))
    done = keep_up(at(table, "2026-01-03T03:00").store, done, write_only=False)  # late rows, and the next day
    assert done.marked_done == ({"dt": "2026-01-01"}, {"dt": "2026-01-02"})
    assert keep_up(at(table, "2026-01-03T04:00").store, done, write_only=False).marked_done == ()
    assert [item["partition"] for item in _Listener.seen] == ["dt=2026-01-01/", "dt=2026-01-01/", "dt=2026-01-02/"]


@pytest.mark.slow
def test_done_partitions_are_reported(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"partition.mark-done-action": "http-report", "partition.mark-done-action.http.url": url}
    options["partition.mark-done-action.http.params"] = "key=value"
    table = filled(tmp_path, "2026-01-01", options=options)
    table.mark_partitions_done([{"dt": "2026-01-01"}])
    request = {"partition": "dt=2026-01-01/", "table": "shop.orders", "path": table.path, "params": "key=value"}
    assert _Listener.seen == [request]
    monkeypatch.setattr(_Listener, "result", "FAILED")
    with pytest.raises(SourceError, match="FAILED"):
        table.mark_partitions_done([{"dt": "2026-01-01"}])
    assert keep_up(table.store).failures == ()


@pytest.mark.parametrize(
    "reply",
    [
        http_reply(b"[]"),
        http_reply(b"null"),
        http_reply(b"<html>"),
        http_reply(b"[" * 100_000),
        http_reply(b'{"result": ["SUCCESS"]}'),
        http_reply(b'{"result": "SUCCESS"}')[:-5],
        b"nonsense",
        b"",
    ],
    ids=["list", "null", "html", "deep", "other type", "cut", "not http", "closed"],
)
def test_other_answers_to_a_report_are_named_errors(tmp_path: Path, reply: bytes) -> None:
    with listening(lambda _: reply) as server:
        url = f"http://127.0.0.1:{server.port}/done"
        options = {"partition.mark-done-action": "http-report", "partition.mark-done-action.http.url": url}
        table = filled(tmp_path, "2026-01-01", options=options)
        with pytest.raises(SourceError) as caught:
            table.mark_partitions_done([{"dt": "2026-01-01"}])
    assert caught.value.facts["url"] == url
    assert caught.value.retryable
