"""Lines of Spark and its processes among our own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from penstock.pipelines.monitor.logs import log_line

RUN = """
import logging, subprocess, sys, threading
from penstock.pipelines.monitor.logs import log_to_stderr
from penstock.pipelines.monitor.logs import stray_output_logged
log_to_stderr(form=sys.argv[1])
logging.getLogger("penstock.run").info("event=started")
with stray_output_logged() as into:
    other = subprocess.Popen(["sh", "-c", "cat >&2"], stdin=subprocess.PIPE, stderr=into, text=True)
other.communicate(sys.argv[2])
for thread in threading.enumerate():
    if thread.name == "penstock-stray-output":
        thread.join(240)
print("the end", file=sys.stderr)
"""
LINES = """WARNING: Using incubator modules: jdk.incubator.vector
2026-11-22 07:00:44 WARN BlockManager: odd\tthing
event=plan_again try=2 of=3 reason=the MySQL server cannot be reached
2026-11-22 07:00:45 ERROR Task: failed
\tat org.apache.spark.X
"""


def run(form: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", RUN, form, LINES], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


@pytest.mark.slow
def test_lines_of_other_processes_are_json_if_configured() -> None:
    *lines, end = run("json")
    assert end == "the end"
    events = [json.loads(line) for line in lines]
    assert [event.get("event", event.get("message")) for event in events] == [
        "started",
        "BlockManager: odd\tthing",
        "plan_again",
        "Task: failed",
        "\tat org.apache.spark.X",
    ]
    assert [event["level"] for event in events] == ["INFO", "WARNING", "WARNING", "ERROR", "ERROR"]
    assert events[2]["reason"] == "the MySQL server cannot be reached"
    assert events[2]["at"]


@pytest.mark.slow
def test_lines_of_other_processes_have_their_time_and_level() -> None:
    lines = run("logfmt")
    assert "WARNING spark: BlockManager: odd" in lines[1]
    assert lines[2].endswith("WARNING event=plan_again try=2 of=3 reason=the MySQL server cannot be reached")


def test_a_line_without_a_level_has_the_level_of_the_previous_line(caplog: pytest.LogCaptureFixture) -> None:
    assert log_line("2026-11-22 07:00:45 ERROR Task: failed") == logging.ERROR
    assert log_line("\tat X", logging.ERROR) == logging.ERROR
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
