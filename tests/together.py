"""Programs that begin at one moment: otherwise one of them may be done before another has started."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LIMIT_S = 280


def wait_for_others() -> None:
    """In a program: say that it is ready, and wait until all are."""
    print("ready", flush=True)
    input()


def exit_codes(*programs: Sequence[str]) -> list[int]:
    """Run programs that wait for each other once, and return their exit codes."""
    pipe = subprocess.PIPE
    with ExitStack() as opened:
        started = [
            opened.enter_context(subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
            for words in programs
        ]
        for program in started:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n", program.args
        for program in started:
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()
        return [program.wait(timeout=_LIMIT_S) for program in started]
