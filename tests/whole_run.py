"""Runs every test, as `make test` does, and runs the few that failed a second time, alone.

A machine that is busy with other work can let a server start late or stand still in the middle of a test. A test that
fails twice fails the run. One that passes the second time is named at the end, under its own heading, and its first
failure stays in the output: it depends on time or on the tests before it, and that is a defect of the test or of the
product.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# More failures than this are no accident.
MOST_AGAIN = 5
# All of it ends before `make test` does, and a second run that has less time than this is not begun.
LIMIT_S, LEAST_S = 3300.0, 60.0
_FAILED = 1  # what pytest returns if it ran, and tests failed


def whole_run(words: list[str], limit_s: float = LIMIT_S) -> int:
    """Run pytest with these words; returns its exit code, or that of the second run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "failed"
        code = _pytest([*words, "--failed-to", str(names)])
        failed = names.read_text(encoding="utf-8").splitlines() if names.exists() else []
    left = limit_s - (time.monotonic() - began)
    if code != _FAILED or not 0 < len(failed) <= MOST_AGAIN or left < LEAST_S:
        return code
    print(f"\n{len(failed)} tests failed. They run a second time, alone:", flush=True)
    again = _pytest(["-q", *failed], left)
    if again == 0:
        _report(failed)
    return again


def _pytest(words: list[str], limit_s: float | None = None) -> int:
    running = subprocess.Popen([sys.executable, "-m", "pytest", *words])
    try:
        return running.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"the second run did not end within {limit_s:.0f} s", flush=True)
        running.terminate()
        running.wait()
        return _FAILED


def _report(failed: list[str]) -> None:
    print(f"{' FAILED ONCE ':!^80}")
    for test in failed:
        print(f"{test} failed in the whole run, and passed alone")
    print("Their failures are above. Find what they depend on: time, or tests before them.", flush=True)


def main(words: list[str]) -> int:
    # `timeout` and Ctrl-C reach pytest as well, which then says what failed so far: this process waits for it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return whole_run(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
