"""Metrics, spans, notifications, the live line and the status page, each told of batches by hand."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import penstock
from penstock.errors import ConfigError, SourceError
from penstock.ingest.connector import BYTES, LOG_BYTES, LOG_SECONDS, RECORDS, WAL_BYTES
from penstock.pipelines.monitor.facts import BatchFacts, Copying, Look, SchemaChanged, SnapshotProgress, TableCopy
from penstock.pipelines.monitor.logs import LiveProgress, keep_above, log_to_stderr
from penstock.pipelines.monitor.measures import lag_text
from penstock.pipelines.monitor.metrics import MOST_TABLES, Metrics
from penstock.pipelines.monitor.pipeline_state import stalled
from penstock.pipelines.monitor.server import StatusServer
from penstock.pipelines.monitor.sizes import Sizes
from penstock.pipelines.monitor.tracing import TracingObserver, stages
from penstock.pipelines.monitor.webhook import WebhookObserver, post
from penstock.pipelines.table_source.connector import CONNECTOR
from penstock.pipelines.tasks.task_stats import TaskStats
from penstock.table.catalog.settings import CatalogSettings

NOW = 1_800_000_000_000


def facts(**more: Any) -> BatchFacts:
    given: dict[str, Any] = {
        "pipeline": "shop",
        "number": 8,
        "start": {},
        "end": {},
        "millis": NOW,
        "seconds": 2.0,
        "messages": 10,
        "bytes": 1000,
        "rows": {"ods.orders": 6, "ods.users": 4},
        "newest": {"ods.orders": NOW - 6_000, "ods.users": NOW - 60_000},
    }
    return BatchFacts(**given | more)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    found: float | None = metrics.registry.get_sample_value(name, labels or None)
    return found


def test_metrics_count_rows_and_contain_the_freshness_of_each_table() -> None:
    metrics = Metrics("shop")
    stats = TaskStats(
        seconds=defaultdict(float, {"decode": 0.5, "commit": 0.25}),
        files={"ods.orders": 7},
        runs={"ods.orders": 3},
        bytes=Counter({"ods.orders": 4096}),
        merged=Counter({"ods.orders": 2}),
        retries=Counter({"ods.orders": 2}),
        conflicts=Counter({"ods.users": 1}),
        replays=1,
        memory=1 << 28,
    )
    kinds = {("ods.orders", "+I"): 5, ("ods.orders", "-D"): 1}
    bad = {("ods.orders", "bad-value"): 1, ("", "not-json"): 1}
    change = SchemaChanged("ods.orders", 3, NOW, ["add.column"])
    metrics.batch(facts(bad_of=bad, kinds=kinds, schemas=[change], stats=stats))
    metrics.batch(facts(kinds=kinds))
    assert value(metrics, "penstock_rows_total", table="ods.orders", kind="+I") == 10
    assert value(metrics, "penstock_merged_rows_total", table="ods.orders") == 2
    assert value(metrics, "penstock_freshness_seconds", table="ods.users") == 60
    assert value(metrics, "penstock_source_lag_seconds") == 60
    assert value(metrics, "penstock_dead_letters_total", table="", reason="not-json") == 1
    assert value(metrics, "penstock_schema_changes_total", table="ods.orders", type="add.column") == 1
    assert value(metrics, "penstock_batch_total_seconds_count") == 2
    assert value(metrics, "penstock_batch_seconds_sum", stage="decode") == 0.5
    assert value(metrics, "penstock_bucket_files", table="ods.orders") == 7
    assert value(metrics, "penstock_sorted_runs", table="ods.orders") == 3
    assert value(metrics, "penstock_bytes_total", table="", direction="read") == 2000
    assert value(metrics, "penstock_bytes_total", table="ods.orders", direction="written") == 4096
    assert value(metrics, "penstock_commit_retries_total", table="ods.orders") == 2
    assert value(metrics, "penstock_commit_conflicts_total", table="ods.users") == 1
    assert value(metrics, "penstock_replays_total") == 1
    assert value(metrics, "penstock_memory_bytes", role="task") == 1 << 28
    assert b"penstock_up 1.0" in metrics.text()
    metrics.ended(None)
    assert value(metrics, "penstock_up") == 0


def test_parked_tables_are_counted_until_they_are_released() -> None:
    """A run that continues for weeks has released tables at its start, and counts those that it parks itself."""
    parked = {"ods.users", "ods.orders"}
    metrics = Metrics("shop", parked=lambda: len(parked))
    assert b"penstock_parked_tables 2.0" in metrics.text()
    parked.discard("ods.orders")
    metrics.batch(facts(stats=TaskStats(parked={"ods.users": "a manifest is torn"})))
    assert b"penstock_parked_tables 1.0" in metrics.text()


def test_lag_is_reported_in_units_of_the_source_and_the_snapshot_by_table() -> None:
    copying = SnapshotProgress((TableCopy("ods.orders", 30, 100),))
    metrics = Metrics("shop", lag_unit=LOG_BYTES, copying=lambda: copying)
    metrics.looked(Look(NOW, {"log": 4096, "shop.orders": 1}))
    assert b'penstock_snapshot_rows{state="expected",table="ods.orders"} 100.0' in metrics.text()
    assert value(metrics, "penstock_source_lag_bytes") == 4096
    seconds = Metrics("shop", lag_unit=LOG_SECONDS)
    seconds.looked(Look(NOW, {"log": 5, "shop.orders": 1}))
    assert value(seconds, "penstock_source_lag_log_seconds") == 5
    records = Metrics("shop")
    records.looked(Look(NOW, {"shop/orders/3": 7}))
    assert value(records, "penstock_source_lag_records", topic="shop/orders", partition="3") == 7
    assert b"penstock_source_lag_bytes" not in records.text()
    records.looked(Look(NOW, {"ods.orders": 8}))
    assert value(records, "penstock_source_lag_records", topic="ods.orders", partition="") == 8


def test_an_idle_table_stays_fresh_while_the_source_has_no_more_data() -> None:
    metrics = Metrics("shop")
    metrics.batch(facts())
    metrics.looked(Look(NOW + 600_000, {"t/0": 0}))
    assert value(metrics, "penstock_freshness_seconds", table="ods.users") == 0
    metrics.looked(Look(NOW + 700_000, {"t/0": 5}))
    assert value(metrics, "penstock_freshness_seconds", table="ods.users") == 100
    assert value(metrics, "penstock_source_lag_records", topic="t", partition="0") == 5


def test_only_the_stalest_of_many_tables_are_shown() -> None:
    metrics = Metrics("shop")
    metrics.batch(facts(newest={f"t{number}": NOW - number * 1000 for number in range(MOST_TABLES + 50)}))
    assert value(metrics, "penstock_freshness_seconds", table="t0") is None
    assert value(metrics, "penstock_freshness_seconds", table=f"t{MOST_TABLES}") == MOST_TABLES


def test_a_batch_is_a_span_with_its_stages_below_and_the_tables_below_the_commit() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    stats = TaskStats(seconds=defaultdict(float, {"plan": 0.25, "decode": 3.0, "commit": 0.5}))
    TracingObserver("shop", provider=provider).batch(facts(schemas=[SchemaChanged("ods.orders", 3, NOW)], stats=stats))
    plan, tasks, first, second, commit, batch = kept.get_finished_spans()
    assert (batch.name, dict(batch.attributes or {})["penstock.rows"]) == ("penstock.batch", 10)
    assert [item.name for item in (plan, tasks, commit)] == ["penstock.plan", "penstock.tasks", "penstock.commit"]
    lasted = [((item.end_time or 0) - (item.start_time or 0)) / 1e9 for item in (plan, tasks, commit, batch)]
    assert lasted == [0.25, 1.25, 0.5, 2.0]
    assert all(
        item.parent is not None and item.parent.span_id == batch.context.span_id for item in (plan, tasks, commit)
    )
    tables = (first, second)
    assert {dict(table.attributes or {})["penstock.table"] for table in tables} == {"ods.orders", "ods.users"}
    assert all(table.parent is not None and table.parent.span_id == commit.context.span_id for table in tables)
    assert [event.name for table in tables for event in table.events] == ["schema changed"]


def test_spans_of_stages_are_limited_to_their_batch() -> None:
    stats = TaskStats(seconds=defaultdict(float, {"plan": 5.0, "commit": 5.0, "compact": 1.0}))
    for began, ended in stages(facts(stats=stats), 0, 2_000_000_000).values():
        assert 0 <= began <= ended <= 2_000_000_000


def test_table_sizes_are_read_at_most_once_a_minute_for_scrapes(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("ods")
    orders = catalog.create_table("ods.orders", [("id", "INT NOT NULL")], primary_keys=["id"], options={"bucket": "1"})

    def write(number: int) -> None:
        with orders.writer(commit_user="w") as writer:
            writer.write(pa.table({"id": pa.array([number], pa.int32())}))
            writer.commit(identifier=number)

    now = [0.0]
    sizes = Sizes(CatalogSettings(str(tmp_path)), clock=lambda: now[0])
    metrics = Metrics("shop", sizes=sizes.of)
    assert b"penstock_table_files{" not in metrics.text()
    metrics.batch(facts(rows={"ods.orders": 1}))
    write(1)
    assert b'penstock_table_files{table="ods.orders"} 1.0' in metrics.text()
    write(2)
    assert b'penstock_table_files{table="ods.orders"} 1.0' in metrics.text()
    now[0] = 61.0
    assert b'penstock_table_files{table="ods.orders"} 2.0' in metrics.text()
    held = sum(path.stat().st_size for path in tmp_path.rglob("data-*.parquet"))
    assert f'penstock_table_bytes{{table="ods.orders"}} {float(held)}'.encode() in metrics.text()


def test_the_size_of_a_table_is_read_again_after_a_rollback_although_its_snapshot_has_the_same_id(
    tmp_path: Path,
) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("ods")
    orders = catalog.create_table("ods.orders", [("id", "INT NOT NULL")])

    for number in range(3):
        with orders.writer() as writer:
            writer.write(pa.table({"id": pa.array([number], pa.int32())}))
            writer.commit()
    now = [0.0]
    sizes = Sizes(CatalogSettings(str(tmp_path)), clock=lambda: now[0])
    assert sizes.of(["ods.orders"])["ods.orders"].files == 3
    orders.rollback_to(2)
    assert [snapshot.id for snapshot in orders.refresh().compact(full=True)] == [3]
    now[0] = 61.0
    assert sizes.of(["ods.orders"])["ods.orders"].files == 1


def notifying(*events: str, clock: Callable[[], float] = lambda: 0.0) -> tuple[WebhookObserver, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []
    return WebhookObserver("shop", "http://x", events, send=lambda url, event: sent.append(event), clock=clock), sent


def test_only_configured_events_are_sent() -> None:
    notify, sent = notifying("failed", "schema-changed", "lag>15m")
    notify.batch(facts(bad={"not-json": 1}, schemas=[SchemaChanged("ods.orders", 3, NOW)]))
    notify.looked(Look(NOW + 1_000_000, {"t/0": 5}))
    notify.ended(SourceError("the broker is gone", hint="start it"))
    assert [(request["event"], request.get("table")) for request in sent] == [
        ("schema-changed", "ods.orders"),
        ("lag>15m", "ods.orders"),
        ("lag>15m", "ods.users"),
        ("failed", None),
    ]
    assert sent[-1]["text"] == "shop: it failed: the broker is gone"


def test_a_repeated_event_is_sent_once_per_interval() -> None:
    now = [0.0]
    notify, sent = notifying("dead-letter", "stopped", clock=lambda: now[0])
    for second in (0, 10, 70):
        now[0] = second
        notify.batch(facts(bad={"not-json": 1}))
    notify.ended(None)
    assert [request["event"] for request in sent] == ["dead-letter", "dead-letter", "stopped"]


def test_a_webhook_receives_json_at_an_address_by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.handle_request, daemon=True).start()
    monkeypatch.setenv("TEST_HOOK", f"http://127.0.0.1:{server.server_address[1]}/hook")
    post("${TEST_HOOK}", {"event": "stopped"})
    server.server_close()
    assert got == [{"event": "stopped"}]


def test_an_unreachable_webhook_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(url: str, event: dict[str, Any]) -> None:
        raise OSError("connection refused")

    notify = WebhookObserver("shop", "http://x", ["stopped"], send=refuse)
    notify.ended(None)
    assert "connection refused" in caplog.text


def test_the_live_line_is_rewritten_below_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "200")
    log_to_stderr()
    live = LiveProgress("shop")
    keep_above(live)
    live.looked(Look(NOW, {"t/0": 0}))
    live.batch(facts())
    logging.getLogger("penstock.test").info("event=hello")
    live.ended(None)
    keep_above(None)
    shown = stream.getvalue().split("\r\033[2K")
    assert "batch 8  10 records in 2 tables  5/s   caught up   fresh 6 s" in shown[0]
    assert shown[1].endswith("event=hello\n" + shown[0] + "\n")


def test_the_live_line_is_drawn_again_if_the_source_has_no_more_data(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setenv("COLUMNS", "200")
    live = LiveProgress("shop", stream, unit=LOG_BYTES)
    live.looked(Look(NOW, {"log": 1_671_976, "shop.orders": 1}))
    live.batch(facts())
    live.looked(Look(NOW + 30_000, {"log": 0}))
    first, second = stream.getvalue().split("\r\033[2K")
    assert first.endswith("1.7 MB of the binlog behind, 1 table to copy   fresh 6 s")
    assert "caught up   fresh 0 s" in second


@pytest.mark.parametrize(
    ("lag", "unit", "text"),
    [
        ({"log": 0}, LOG_BYTES, "caught up"),
        ({"log": 0, "shop.a": 1, "shop.b": 1}, LOG_BYTES, "2 tables to copy"),
        ({"log": 999}, LOG_BYTES, "999 bytes of the binlog behind"),
        ({"log": 7, "shop.a": 1}, LOG_SECONDS, "7 seconds of the oplog behind, 1 table to copy"),
        ({"log": 999, "public.a": 1}, WAL_BYTES, "999 bytes of the WAL behind, 1 table to copy"),
        # Units of sources in other packages.
        ({"log": 2000, "app.a": 1}, "bytes of the redo log", "2.0 kB of the redo log behind, 1 table to copy"),
        ({"a": 3}, "files", "3 files behind in 1 partition"),
        ({"a.json": 1500, "b.json": 500}, BYTES, "2.0 kB behind in 2 files"),
        ({"t/0": 494, "t/1": 0}, RECORDS, "494 records behind in 1 partition"),
        ({"t/0": 1}, RECORDS, "1 record behind in 1 partition"),
        ({"ods.a": 1200, "ods.b": 3, "ods.c": 0}, CONNECTOR.capabilities.lag_unit, "1,203 rows behind in 2 tables"),
    ],
)
def test_lag_is_shown_in_the_unit_of_the_source(lag: dict[str, int], unit: str, text: str) -> None:
    assert lag_text(lag, unit) == text


def test_log_lines_can_be_json(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    log_to_stderr(form="json")
    logging.getLogger("penstock.test").info("event=batch number=%d tables=%s", 7, "a b")
    log_to_stderr()
    logging.getLogger("another").warning("theirs")
    line = json.loads(stream.getvalue().splitlines()[0])
    assert "event=batch" not in stream.getvalue()
    assert (line["event"], line["number"], line["tables"], line["level"]) == ("batch", "7", "a b", "INFO")


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_an_error_with_its_facts_is_one_line_of_the_log(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    log_to_stderr(form=form)
    error = ConfigError("it does not fit", table="shop.orders", hint="correct it")
    logging.getLogger("penstock.test").warning("event=refused reason=%s", error)
    log_to_stderr()
    (line,) = stream.getvalue().splitlines()
    text = "it does not fit; table: shop.orders; to repair: correct it"
    assert (
        json.loads(line)["reason"] == text if form == "json" else line.endswith(f" WARNING event=refused reason={text}")
    )


def test_log_lines_after_a_closed_stream_are_written_to_the_current_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    log_to_stderr()
    monkeypatch.setattr("sys.stderr", second)
    first.close()
    logging.getLogger("penstock.test").info("event=late")
    assert second.getvalue().endswith("event=late\n")
    assert len(second.getvalue().splitlines()) == 1
    second.close()
    logging.getLogger("penstock.test").info("event=later")  # nowhere to go, and no error of the logging


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_an_error_of_a_batch_is_printed_by_the_command_and_not_by_py4j(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(logging.root, "handlers", [])
    log_to_stderr(form=form)
    try:
        raise ValueError("in a batch")
    except ValueError:
        logging.getLogger("py4j.clientserver").exception(
            "There was an exception while executing the Python Proxy on the Python Side."
        )
    assert stream.getvalue() == ""
    logging.getLogger("py4j.clientserver").error("something else")
    shown = stream.getvalue()
    assert "something else" in shown
    assert "py4j" in shown
    assert form == "logfmt" or json.loads(shown)["message"] == "something else"


def test_the_source_snapshot_is_reported_by_share_and_time_left() -> None:
    copying = Copying({"ods.events": 1000, "ods.users": 10}, {"shop.events": "ods.events", "shop.users": "ods.users"})
    end = {"phase": "snapshot", "cursors": [{"database": "shop", "table": "events"}]}
    now = copying.batch({"ods.events": 600, "ods.users": 10}, end, 100.0)
    assert [(table.table, table.share) for table in now.tables] == [("ods.events", 0.6)]
    assert (now.done, now.seconds_left) == (1, 4.0)
    assert "60%  about 4 s left [######----] (1 of 2 tables done)" in now.line()
    assert copying.batch({}, {"phase": "stream"}, 1.0).tables == ()


def test_the_share_of_a_copy_does_not_fall_when_a_table_is_done() -> None:
    tables = {"ods.a": 1000, "ods.b": 1000, "ods.c": 100}
    copying = Copying(tables, {table.replace("ods", "shop"): table for table in tables})

    def share(rows: dict[str, int], *open_: str) -> float:
        cursors = [{"database": "shop", "table": table} for table in open_]
        return copying.batch(rows, {"phase": "snapshot", "cursors": cursors}, 1.0).share

    shares = [share({"ods.c": 90, "ods.a": 500}, "a", "b"), share({"ods.a": 450, "ods.b": 100}, "b")]
    shares.append(share({"ods.b": 600}, "b"))
    assert shares == [pytest.approx(590 / 2090), pytest.approx(1140 / 2040), pytest.approx(1740 / 2040)]


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=240) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
def test_the_page_is_one_file_that_loads_nothing_from_elsewhere() -> None:
    server = StatusServer("127.0.0.1:0", lambda: {"pipeline": "shop"}, lambda: b"penstock_up 1.0\n")
    code, page = get(server.port, "/")
    assert code == 200
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads(get(server.port, "/status.json")[1]) == {"pipeline": "shop"}
    assert get(server.port, "/metrics")[1] == "penstock_up 1.0\n"
    assert get(server.port, "/etc/passwd")[0] == 404
    assert get(server.port, "/health") == (200, "ok\n")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    connection.request("HEAD", "/health")
    assert (connection.getresponse().status, connection.sock is not None) == (200, True)
    connection.close()
    server.close()


@pytest.mark.slow
def test_a_stalled_pipeline_is_not_healthy() -> None:
    server = StatusServer("127.0.0.1:0", dict, None, trouble=lambda: "nothing was committed")
    assert get(server.port, "/health") == (503, "nothing was committed\n")
    server.close()


@pytest.mark.slow
def test_a_failed_request_is_logged_without_traceback(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> dict[str, Any]:
        raise ValueError("no such state")

    server = StatusServer("127.0.0.1:0", broken, None)
    with contextlib.suppress(OSError, http.client.HTTPException):
        get(server.port, "/status.json")
    server.close()
    assert "event=request_failed reason=ValueError: no such state" in caplog.text
    assert capsys.readouterr().err == ""


def test_names_of_tables_are_escaped_in_metrics() -> None:
    metrics = Metrics('sh"op\n')
    name = 'ods.<script>"\\\n日本'
    metrics.batch(facts(rows={name: 6}, newest={name: NOW}, kinds={(name, "+I"): 6}))
    text = metrics.text().decode()
    assert 'pipeline="sh\\"op\\n"' in text
    assert 'penstock_rows_total{kind="+I",table="ods.<script>\\"\\\\\\n日本"} 6.0' in text
    assert value(metrics, "penstock_rows_total", table=name, kind="+I") == 6


@pytest.mark.parametrize(
    ("seconds", "more", "stands_still"),
    [
        (601, {}, True),
        (599, {}, False),
        (601, {"lag": {"t/0": 0}}, False),  # nothing is there to take
        (601, {"lag": None}, False),  # nobody has looked yet
        (601, {"trigger_seconds": 3600}, False),
        (36_001, {"trigger_seconds": 3600}, True),
        (601, {"state": "paused"}, False),
        (601, {"caught_up_millis": NOW}, False),  # what there is came just now
    ],
)
def test_a_stall_is_reported_if_the_source_has_more_data(
    seconds: int, more: dict[str, Any], stands_still: bool
) -> None:
    driver = {"state": "running", "started_millis": NOW, "lag": {"t/0": 5}, "trigger_seconds": 10, **more}
    driver["caught_up_millis"] = driver.get("caught_up_millis", 0) and NOW + seconds * 1000
    assert (stalled(driver, NOW + seconds * 1000) is not None) == stands_still


def test_an_address_in_use_fails_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match="cannot listen on its address"),
    ):
        StatusServer(f"127.0.0.1:{taken.getsockname()[1]}", dict, None)


def test_the_page_is_packaged_with_the_code() -> None:
    from penstock.pipelines.monitor import server

    assert Path(server.PAGE).is_file()
