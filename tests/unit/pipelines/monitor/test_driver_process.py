"""One driver a checkpoint: who is refused, and who goes on after a death."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from penstock.errors import SourceError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.commands.main import main
from penstock.pipelines.errors import CheckpointInUse, WorkerLate
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.driver_process import refuse_second_driver
from penstock.pipelines.spark.errors import cause_of_end

NOW = 1_800_000_000.0
HERE = socket.gethostname()
OTHER = os.getpid() + 1


def left_by(tmp_path: Path, **facts: object) -> CheckpointFolder:
    folder = CheckpointFolder(str(tmp_path))
    folder.put_status({"state": "running", "host": HERE, "pid": OTHER, "heard_millis": int(NOW * 1000)} | facts)
    return folder


def refused(folder: CheckpointFolder, *, alive: bool = True) -> bool:
    try:
        refuse_second_driver(folder, lambda pid: alive, lambda: NOW + 5)
    except CheckpointInUse:
        return True
    return False


def test_a_running_driver_of_this_machine_excludes_a_second_one(tmp_path: Path) -> None:
    assert refused(left_by(tmp_path))
    assert refused(left_by(tmp_path, state="paused"))
    with pytest.raises(CheckpointInUse, match=str(OTHER)) as caught:
        refuse_second_driver(left_by(tmp_path), lambda pid: True, lambda: NOW)
    assert caught.value.exit_code == 9


def test_a_new_driver_starts_after_one_was_killed_ended_or_silent(tmp_path: Path) -> None:
    assert not refused(CheckpointFolder(str(tmp_path / "new")))
    assert not refused(left_by(tmp_path), alive=False)
    assert not refused(left_by(tmp_path, state="stopped"))
    assert not refused(left_by(tmp_path, state="failed"))
    assert not refused(left_by(tmp_path, heard_millis=int((NOW - 600) * 1000)))


def test_a_restarted_container_with_the_same_process_id_is_not_excluded(tmp_path: Path) -> None:
    assert not refused(left_by(tmp_path, pid=os.getpid()))
    assert not refused(left_by(tmp_path, host="another-machine"))


def test_run_reports_a_running_driver_before_it_starts_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"pipeline: {{name: shop}}\nsource: {{type: files, path: {tmp_path}/in, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {tmp_path}/lake}}, database: ods}}\n"
    )
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            checkpoint = tmp_path / "lake" / "_penstock" / "shop"
            checkpoint.mkdir(parents=True)
            status = {"state": "running", "host": HERE, "pid": other.pid, "heard_millis": 4_000_000_000_000}
            (checkpoint / "status.json").write_text(json.dumps(status))
            assert main(["run", str(path)]) == 9
        finally:
            other.kill()
    assert "another process is running this pipeline" in capsys.readouterr().err


def test_the_error_of_spark_for_two_drivers_is_checkpoint_in_use() -> None:
    error = StreamingQueryException("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    cause = cause_of_end(error, None, "/lake/_penstock/shop", ErrorMark())
    assert isinstance(cause, CheckpointInUse)
    assert cause.facts["checkpoint"] == "/lake/_penstock/shop"
    other = StreamingQueryException("[OTHER] else")
    assert cause_of_end(other, None, "x", ErrorMark()) is other


@pytest.mark.parametrize(
    "words",
    [
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        "OSError: [Errno 28] No space left on device: '/lake/a'",
    ],
)
def test_text_of_a_record_in_a_foreign_error_is_not_parsed(words: str) -> None:
    error = StreamingQueryException(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: org.apache.spark.api.python."
        f"PythonException: Traceback (most recent call last):\npyarrow.lib.ArrowInvalid: in '{words}'\n{words}"
    )
    assert cause_of_end(error, None, "x", ErrorMark()) is error


@pytest.mark.parametrize(
    "text",
    [
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker failed to connect back.",
        "Job aborted: Lost task 0.3: org.apache.spark.SparkException: Python worker failed to connect back.\n\tat x",
    ],
)
def test_a_late_python_worker_is_reported_as_late(text: str) -> None:
    assert isinstance(cause_of_end(StreamingQueryException(text), None, "x", ErrorMark()), WorkerLate)


def test_the_error_of_the_sink_is_preferred_to_text() -> None:
    mark, own = ErrorMark(), SourceError("the sink's")
    with pytest.raises(RuntimeError) as caught, mark.carrying():
        raise SourceError("a task's")
    error = StreamingQueryException(f"x\n{caught.value}")
    assert cause_of_end(error, own, "x", mark) is own
    assert str(cause_of_end(error, None, "x", mark)) == "a task's"
