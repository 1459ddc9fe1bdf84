"""The pages of the documentation as programs: what stands in their fenced blocks is run, in order, in an empty folder.

The word after ```python or ```console says what a block needs: nothing, spark, kafka, pulsar, `session`, which is
the variable `spark`, or `servers`, which are that variable and databases; `not-run: reason` is told and left out.
```yaml file=NAME writes a file. A console block's output is compared where the page shows one; `...` stands for
anything, and output that begins with `error:` means that the command fails.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.pipelines.commands.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
HARDEST_FIRST = ("servers", "kafka", "pulsar", "mysql", "postgres", "mongodb", "spark", "session")
NEEDS = set(HARDEST_FIRST)
_FENCE = re.compile(r"^```(\w*) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    place: str
    language: str
    note: str
    text: str

    @property
    def runs(self) -> bool:
        return self.language in {"python", "console"} and not self.note.startswith(("not-run", "file="))


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{page.relative_to(ROOT)}:{line}", *found.groups())


def needs(page: Path) -> set[str]:
    return {block.note for block in blocks(page) if block.runs and block.note}


def pages(kind: str | None) -> list[Path]:
    """The pages whose hardest need this is; a page is run as a whole."""
    return [page for page in PAGES if next((item for item in HARDEST_FIRST if item in needs(page)), None) == kind]


def run_page(
    page: Path,
    replaced: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None,
    *,
    on_spark: bool = False,
) -> None:
    """Run a page's blocks in the current folder, one namespace for all; `replaced` are addresses of servers.

    With `on_spark`, its commands are run by `--engine spark`, which does not count changed rows.
    """
    names: dict[str, Any] = {"__name__": "docs", **(given or {})}
    for block in blocks(page):
        text = block.text
        for written, real in (replaced or {}).items():
            text = text.replace(written, real)
        if block.note.startswith("file="):
            Path(block.note.removeprefix("file=")).write_text(text, encoding="utf-8")
        elif block.runs and block.language == "python":
            exec(compile(text, block.place, "exec"), names)
        elif block.runs:
            _run_console(block, text, on_spark=on_spark)


def _run_console(block: Block, text: str, *, on_spark: bool) -> None:
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        words = shlex.split(command) + (["--engine", "spark"] if on_spark else [])
        if on_spark and wanted.startswith("inserted  updated  deleted  snapshot\n"):
            wanted = "result\n------\nOK\n"
        if on_spark:  # the snapshots of a job's target have other numbers there
            wanted = re.sub(r"^(sql:.* )\d+$", r"\1...", wanted, flags=re.MULTILINE)
        code, output, errors = _apart(words) if block.note else _here(words)
        fails = wanted.startswith("error:")
        assert (code != 0) == fails, f"{block.place}: {command} gave {code}\n{output}{errors}"
        got = errors if fails else output
        if wanted.strip() and not doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS):
            raise AssertionError(f"{block.place}: {command}\nthe page says\n{wanted}\nbut it said\n{got}")


def _here(words: list[str]) -> tuple[int, str, str]:
    assert words[0] == "penstock", f"what is {words[0]}? Mark the block  not-run: reason"
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main(words[1:])
        except SystemExit as left:
            code = int(left.code or 0)
    return code, out.getvalue(), errors.getvalue()


def _apart(words: list[str]) -> tuple[int, str, str]:
    """In a process of its own, as Spark ends with the process it began in."""
    if words[0] == "make":
        command = ["make", "--no-print-directory", "-C", str(ROOT), *words[1:]]
    else:
        command = [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", *words[1:]]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, env=os.environ | {"PYTHONPATH": path}
    )
    return done.returncode, done.stdout, done.stderr
