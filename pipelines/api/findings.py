"""The results of checks: one line per checked item, with the fix below each problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from penstock.errors import PenstockError, label

Level = Literal["ok", "warning", "error"]
_MARKS = {"ok": "ok     ", "warning": "warning", "error": "error  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    `about` is file, options, source, warehouse, tables, checkpoint, observe, spark or java; `code` is the exit code of
    an error.
    """

    about: str
    level: Level
    message: str
    fix: str = ""
    code: int = 0

    def facts(self) -> dict[str, object]:
        return asdict(self)

    def lines(self) -> list[str]:
        first = f"{_MARKS[self.level]}  {self.about:<10}  {self.message}"
        return [first, f"{'':21}to repair  {self.fix}"] if self.fix else [first]


def of_error(about: str, error: PenstockError) -> Finding:
    facts = "".join(f"; {label(name)}: {value}" for name, value in error.facts.items())
    return Finding(about, "error", f"{error.message}{facts}", error.hint or "", error.exit_code)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the smallest exit code of the errors, or 0 without errors.

    So a wrong file has priority over an unreachable source.
    """
    return min((finding.code for finding in findings if finding.level == "error"), default=0)
