"""The findings of the checks of a server: each problem with the statement that fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.errors import SourceError
from penstock.ingest.mysql.errors import (
    SourceNotReady,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import ServerFacts


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem; a `warning` does not prevent the pipeline from starting."""

    error: type[SourceError]
    level: Literal["error", "warning"]
    message: str
    seen: str
    wanted: str
    fix: str

    def __str__(self) -> str:
        return f"{self.message}: {self.seen}, wanted {self.wanted}. {self.fix}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The plan of the pipeline, so that only what it needs is checked."""

    tables: Sequence[TableName] = ()
    server_ids: range = range(0)
    partial_images: bool = False
    locking_snapshot: bool = False
    snapshot: bool = True


def require_ready(findings: Sequence[Finding]) -> None:
    """Raise the errors among the findings: a single one as its specific error, several in one report."""
    errors = [finding for finding in findings if finding.level == "error"]
    if len(errors) == 1:
        only = errors[0]
        raise only.error(only.message, hint=only.fix, seen=only.seen, wanted=only.wanted)
    if errors:
        facts: dict[str, object] = {str(number): finding for number, finding in enumerate(errors, 1)}
        error = SourceNotReady(f"the server has {len(errors)} settings that prevent reading its changes")
        error.facts.update(facts)
        raise error


def error_finding(error: type[SourceError], message: str, seen: object, wanted: str, fix: str) -> Finding:
    return Finding(error, "error", message, str(seen), wanted, fix)


def warning_finding(error: type[SourceError], message: str, seen: object, wanted: str, fix: str) -> Finding:
    return Finding(error, "warning", message, str(seen), wanted, fix)


def setting_statement(facts: ServerFacts, setting: str, value: object, note: str = "") -> str:
    """Return the statement that changes a setting permanently; MariaDB has no statement that persists a setting."""
    notes = [*(["set it in the configuration file too"] if facts.is_mariadb else []), *([note] if note else [])]
    statement = f"SET {'GLOBAL' if facts.is_mariadb else 'PERSIST'} {setting} = {value};"
    return f"{statement}  -- {', '.join(notes)}" if notes else statement
