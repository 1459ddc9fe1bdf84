"""The tables of benchmarks/RESULTS.md: each is between two marks that name its benchmark, and is written from figures.

The first line of a table names the command, the day and the state of the machine. Text outside of the marks is kept.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from shutil import which

from benchmarks.figures import Figure

PATH = Path(__file__).with_name("RESULTS.md")
END = "<!-- end -->"
HEAD = "| work | ours | peer | ratio | goal |\n|---|---|---|---|---|"
COLUMNS = 5
_BAR = re.compile(r"(?<!\\)\|")
_IDLE = re.compile(r"^`[^`]+` · [^·]+ · idle\b", re.MULTILINE)


class IdleFiguresKept(Exception):
    """Figures of an idle machine would be replaced by those of a busy one."""


class TableMissing(Exception):
    """The page has no place for the table of a benchmark."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The circumstances of a run, as the first line of its table names them."""

    day: str
    busy: bool
    load: float
    cores: int
    versions: str
    left_out: str = ""

    @classmethod
    def now(cls, *, busy: bool, load: float, left_out: str = "") -> Conditions:
        return cls(f"{datetime.now(UTC):%Y-%m-%d}", busy, load, os.cpu_count() or 1, versions(), left_out)

    def __str__(self) -> str:
        state = "busy" if self.busy else "idle"
        text = f"{self.day} · {state}, load {self.load:.1f} before it, {self.cores} cores · {self.versions}"
        return f"{text} · without {self.left_out}" if self.left_out else text


@cache
def versions() -> str:
    """Return the versions that a figure depends on, with the commit of the code, as they are when first called.

    The tables that are written later make the checkout differ from its commit.
    """
    words = ["git", "-C", str(PATH.parent), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False) if which("git") else None
    commit = [f"commit {done.stdout.strip()}"] if done and done.returncode == 0 else []
    return ", ".join([*commit, f"Python {platform.python_version()}", f"PyArrow {version('pyarrow')}"])


def number(value: float) -> str:
    """Return a number with three digits that count, or all digits before the point."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0")


def row(figure: Figure) -> str:
    peer = "" if figure.peer is None else f"{number(figure.peer)} ({figure.peer_name})"
    ratio = "" if figure.ratio is None else f"{number(figure.ratio)}x"
    cells = [figure.work, f"{number(figure.ours)} {figure.unit}", peer, ratio, goal(figure)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    text = f"{number(figure.goal)}x" if figure.goal_of_ratio else number(figure.goal)
    state = {True: "reached", False: "missed", None: "the peer did not run"}[figure.reached]
    return f"{text}: {state}"


def table(command: str, conditions: Conditions, figures: Sequence[Figure]) -> str:
    return "\n".join([f"`{command}` · {conditions}", "", HEAD, *map(row, figures)])


def with_figures_of(text: str, page: str) -> str:
    """Return a text whose rows of four cells follow the rows of the page with the same work."""
    rows = {cells[1].strip(): cells for line in page.splitlines() if len(cells := _BAR.split(line)) == COLUMNS + 2}

    def current(line: str) -> str:
        cells = _BAR.split(line)
        known = rows.get(cells[1].strip()) if len(cells) == COLUMNS + 1 else None
        return line if known is None or known[1].strip() == "work" else "|".join([*known[:COLUMNS], ""])

    return "\n".join(map(current, text.split("\n")))


def start(name: str) -> str:
    return f"<!-- figures: {name} -->"


def content(page: str, name: str) -> str:
    """Return what is between the marks of a benchmark."""
    _before, found, after = page.partition(f"{start(name)}\n")
    inside, ended, _ = after.partition(END)
    if not found or not ended:
        raise TableMissing(f"benchmarks/RESULTS.md has no lines '{start(name)}' and '{END}': add them where it belongs")
    return inside.strip("\n")


def replaced(page: str, name: str, new: str) -> str:
    """Return the page with another table for a benchmark."""
    content(page, name)  # raises TableMissing without the marks
    before, _, after = page.partition(f"{start(name)}\n")
    return f"{before}{start(name)}\n{new}\n{after[after.index(END) :]}"


def check_replaceable(page: str, name: str, *, busy: bool, allow_busy: bool) -> None:
    if busy and not allow_busy and _IDLE.search(content(page, name)):
        raise IdleFiguresKept(
            f"{name}: the page has figures of an idle machine, and this machine is busy with other work. "
            "Wait until it is idle, or replace them with --busy"
        )
