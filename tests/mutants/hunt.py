"""The search for the story or the test that notices a mutant."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant, source_tree

_SEED = re.compile(r"^seed (\d+), step", re.MULTILINE)
_TEST = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)  # not a logged error


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a mutant is searched for: so many seeds from the first on, or so many seconds."""

    first: int = 0
    seeds: int = 5000
    seconds: float = 1800


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for a mutant. `by` is the seed or the test that noticed it, None if it survived."""

    mutant: Mutant
    by: str | None
    seeds: int
    seconds: float
    note: str = ""

    @property
    def row(self) -> str:
        """Return the finding as a row of a Markdown table."""
        by = self.by or f"**survived** {self.note}".strip()
        return f"| {self.mutant.name} | {self.mutant.promise} | {by} | {self.seeds or ''} | {self.seconds:.0f} |"


def hunt(mutant: Mutant, limits: Limits) -> Finding:
    """Run stories or tests against the mutant until one notices it, and repeat that one without the fault."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-") as folder:
        tree = Path(folder) / "tree"
        mutant.plant(tree, source_tree())
        by, seeds, note = _by_tests(mutant, tree, limits) if mutant.tests else _by_stories(mutant, tree, limits)
    return Finding(mutant, by, seeds, time.monotonic() - started, note)


def _by_stories(mutant: Mutant, tree: Path, limits: Limits) -> tuple[str | None, int, str]:
    words = ["-m", "tests.stories", str(limits.first), str(limits.seeds), "--stop", "--with", mutant.stories or ""]
    code, output = _run(tree, words, limits.seconds)
    found = _SEED.search(output)
    if found is None:
        return None, 0, _last_line(output) if code is not None else f"after {limits.seconds:.0f} s"
    seed = int(found[1])
    sound, _ = _run(ROOT, ["-m", "tests.stories", str(seed), "1"], limits.seconds)
    if sound != 0:
        return None, 0, f"seed {seed} fails without the fault too"
    return f"seed {seed}", seed - limits.first + 1, ""


def _by_tests(mutant: Mutant, tree: Path, limits: Limits) -> tuple[str | None, int, str]:
    code, output = _run(tree, [*_PYTEST, *mutant.tests], limits.seconds)
    found = _TEST.search(output)
    if found is None:
        return None, 0, _last_line(output) if code is not None else f"after {limits.seconds:.0f} s"
    sound, _ = _run(ROOT, [*_PYTEST, found[1]], limits.seconds)
    if sound != 0:
        return None, 0, f"{found[1]} fails without the fault too"
    return found[1].removeprefix("tests/"), 0, ""


_PYTEST = ("-m", "pytest", "-q", "-x", "--check", "-n", "0")


def _run(tree: Path, words: list[str], seconds: float) -> tuple[int | None, str]:
    """Return the exit code, None if the time was over, and the output."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *words],
            cwd=tree,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        return None, output.decode(errors="replace") if isinstance(output, bytes) else output
    return done.returncode, done.stdout


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "without output"
