"""`penstock run` in its own process: signals, status, a scrape; a table is parked, and retried."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.spark.session_settings import package_home
from tests import waiting
from tests.chaos.driver import session_of
from tests.servers.launch import free_port
from tests.shop import Shop, insert

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLANNER = b"python_streaming_source_runner"
SERIES = (
    'penstock_rows_total{kind="+I",table="ods.orders"} 1.0',
    'penstock_batch_seconds_count{stage="decode"}',
    'penstock_batch_seconds_count{stage="write"}',
    'penstock_batch_seconds_count{stage="commit"}',
    'penstock_batch_seconds_count{stage="plan"}',
    'penstock_bytes_total{direction="written",table="ods.orders"}',
    'penstock_bucket_files{table="ods.orders"} 1.0',
    'penstock_sorted_runs{table="ods.orders"} 1.0',
    'penstock_memory_bytes{role="task"}',
    "penstock_source_lag_bytes",
    "penstock_replays_total",
)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def words(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", *arguments]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": package_home()}


def json_output(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        words(*arguments, "--json"), cwd=folder, env=environment(), capture_output=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            words(*arguments), cwd=folder, env=environment(), stderr=log, stdout=log, start_new_session=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def until(true: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path) -> None:
    def log() -> str:
        return (folder / "log").read_text()[-3000:]

    def is_so() -> bool:
        assert process.poll() is None, log()
        return true()

    waiting.until(is_so, log)


def described(shop: Shop, port: int, errors: str, spark: str = "when-needed") -> None:
    (shop.folder / "shop.yaml").write_text(
        f"pipeline: {{name: shop, trigger: 200ms, checkpoint: {shop.folder}/checkpoint, spark: {spark}}}\n"
        f"source: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {shop.folder}/warehouse}}, database: ods}}\n"
        f"errors: {{isolate: true{errors}}}\n"
        f"observe: {{metrics: 127.0.0.1:{port}}}\n"
    )


@pytest.mark.parametrize("spark", ["when-needed", "always"])
def test_a_running_pipeline_is_scraped_paused_resumed_stopped_and_its_parked_table_retried(
    spark: str, shop: Shop
) -> None:
    folder, port = shop.folder, free_port()
    described(shop, port, "", spark)
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    ids = lambda table: shop.ids(table) if table_is_there(shop, table) else []  # noqa: E731
    with running(folder, "run", "shop.yaml") as process:
        until(lambda: ids("orders") == [1] and ids("users") == [1], process, folder)
        until(lambda: all(item in scraped(port) for item in SERIES), process, folder)
        json_output(folder, "signal", "shop.yaml", "pause")
        until(lambda: json_output(folder, "status", "shop.yaml")["state"] == "paused", process, folder)
        shop.put("2.json", insert("users", {"id": 2}), insert("orders", {"id": 2, "q1": "seven"}))
        resumed = time.time_ns() // 1_000_000
        json_output(folder, "signal", "shop.yaml", "resume")
        until(lambda: ids("users") == [1, 2], process, folder)
        newest = shop.table("users").latest_snapshot
        assert newest is not None
        assert newest.time_millis >= resumed
        facts = json_output(folder, "status", "shop.yaml")
        assert facts["parked"]["ods.orders"]["error"] == "DecodeError"
        assert {fact["table"]: fact["state"] for fact in facts["tables"]}["ods.orders"] == "failed"
        assert looks(folder, "status", "shop.yaml", "--watch", "--every", "50ms", "--json") == ["running", "running"]
        json_output(folder, "signal", "shop.yaml", "stop")
        assert process.wait(240) == 10
    assert "1 table failed and is parked" in (folder / "log").read_text()
    described(shop, port, ", bad-record: skip", spark)
    shop.put("3.json", insert("orders", {"id": 3, "q1": 3}))
    facts = json_output(folder, "run", "shop.yaml", "--until-caught-up", "--retry")
    assert facts["parked"] == []
    assert ids("orders") == [1, 3]
    assert json_output(folder, "status", "shop.yaml")["state"] == "stopped"


@pytest.mark.parametrize("name", [PLANNER, b"penstock.pipelines.spark.worker_daemon"])
def test_a_killed_process_of_spark_is_replaced_by_the_next_attempt(name: bytes, shop: Shop) -> None:
    folder = shop.folder
    described(shop, free_port(), "", "always")
    settings = (folder / "shop.yaml").read_text()
    retries = "on-error: {retries: 5, backoff: 100ms}, name: shop,"
    (folder / "shop.yaml").write_text(settings.replace("name: shop,", retries))
    ids = lambda: shop.ids("orders") if table_is_there(shop, "orders") else []  # noqa: E731
    shop.put("1.json", insert("orders", {"id": 1}))
    with running(folder, "run", "shop.yaml") as process:
        until(lambda: ids() == [1], process, folder)
        for number in (2, 3):
            for pid in named(name, process.pid):
                os.kill(pid, signal.SIGKILL)
            shop.put(f"{number}.json", insert("orders", {"id": number}))
            until(lambda number=number: ids() == list(range(1, number + 1)), process, folder)  # type: ignore[misc]
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0
    assert (
        name != b"python_streaming_source_runner" or "that plans the batches was lost" in (folder / "log").read_text()
    )


def named(name: bytes, leader: int) -> list[int]:
    """The processes of a session with this name in their command lines."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(ProcessLookupError, FileNotFoundError):
            if (
                entry.name.isdigit()
                and session_of(int(entry.name)) == leader
                and name in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
    return found


def table_is_there(shop: Shop, table: str) -> bool:
    return (shop.folder / f"warehouse/ods.db/{table}/snapshot/LATEST").exists()


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def looks(folder: Path, *arguments: str) -> list[str]:
    """The states that the first two lines of a watch tell."""
    with subprocess.Popen(words(*arguments), cwd=folder, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        states = [json.loads(process.stdout.readline())["state"] for _ in range(2)]
        process.kill()
    return states


@pytest.mark.parametrize("spark", ["when-needed", "always"])
def test_stopping_the_process_group_ends_the_run_in_order(spark: str, shop: Shop) -> None:
    described(shop, free_port(), "", spark)
    shop.put("1.json", insert("orders", {"id": 1}))
    with running(shop.folder, "run", "shop.yaml") as process:
        until(lambda: table_is_there(shop, "orders") and shop.ids("orders") == [1], process, shop.folder)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(240) == 0, (shop.folder / "log").read_text()[-3000:]
    output = (shop.folder / "log").read_text()
    assert "Traceback" not in output
    assert "error:" not in output


# Gets SIGTERM after the second commit: from outside, it might come after the last one.
STOPPED_EARLY = """
import os, signal, sys
from penstock.pipelines.commands.main import main
from penstock.pipelines.driver.commit import Commits
commit, done = Commits.commit, []
def committed(*given, **named):
    done.append(commit(*given, **named))
    if len(done) == 2:
        os.kill(os.getpid(), signal.SIGTERM)
    return done[-1]
Commits.commit = committed
sys.exit(main())
"""


def test_a_bounded_run_that_is_stopped_early_does_not_end_as_if_it_had_caught_up(shop: Shop) -> None:
    described(shop, free_port(), "")
    file = shop.folder / "shop.yaml"
    file.write_text(file.read_text().replace("trigger: 200ms", "max-batch: {rows: 1}"))
    for number in range(20):  # a batch for each file
        shop.put(f"{number:02}.json", insert("orders", {"id": number}))
    command = [sys.executable, "-W", "ignore", "-c", STOPPED_EARLY, "run", "shop.yaml", "--until-caught-up"]
    done = subprocess.run(
        command, cwd=shop.folder, env=environment(), capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 13, done.stderr
    assert "error: the run was stopped before it had caught up with the source" in done.stderr
    assert 2 <= len(shop.ids("orders")) < 20


def test_a_killed_jvm_is_reported_as_killed(shop: Shop) -> None:
    described(shop, free_port(), "", "always")
    shop.put("1.json", insert("orders", {"id": 1}))
    with running(shop.folder, "run", "shop.yaml") as process:
        until(lambda: table_is_there(shop, "orders") and shop.ids("orders") == [1], process, shop.folder)
        (jvm,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[:1]
        os.kill(int(jvm), signal.SIGKILL)
        assert process.wait(240) == 11, (shop.folder / "log").read_text()[-3000:]
    output = (shop.folder / "log").read_text()
    assert "error: Spark's JVM ended while the pipeline was running\n  killed by  signal 9" in output
    assert "Traceback" not in output
