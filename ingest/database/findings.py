"""The findings of the checks of a database server, and the errors that all servers have in common.

SourceError
  SourceNotReady            several settings or conditions of the server prevent capturing its tables
  MissingGrant              the user lacks a privilege
  ConnectionLost            the network or the server failed (retryable)
  DamagedData               what the server sent contradicts its checksum or its format (retryable)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.errors import ConfigError, SourceError
from penstock.ingest.connector_answers import SourceFinding
from penstock.ingest.connector_requests import TableName

log = logging.getLogger(__name__)


class SourceNotReady(SourceError):
    pass


class MissingGrant(SourceError):
    pass


class ConnectionLost(SourceError):
    advice = (
        "start again, or set  pipeline: {on-error: {retries: N}} ; if it happens often, the log of the server or of a "
        "proxy in between shows why the connection was closed"
    )


class DamagedData(SourceError):
    """The server sent data that contradicts its checksum or its format.

    The data is requested again, because the network may have damaged it. If it is damaged on the server, every attempt
    fails.
    """

    def __init__(self, message: str, *, hint: str | None = None, retryable: bool = True, **facts: object) -> None:
        super().__init__(message, hint=hint, retryable=retryable, **facts)


class NothingCaptured(ConfigError):
    """The server has no table that is selected and can be captured."""


@dataclass(frozen=True, slots=True)
class ServerFinding:
    """One problem of a server, with the statement that fixes it; a `warning` does not prevent a pipeline's start.

    `hiding` is a table that hides needed columns from the user.
    """

    error: type[SourceError]
    level: Literal["error", "warning"]
    message: str
    seen: str
    wanted: str
    fix: str
    hiding: TableName | None = None

    def __str__(self) -> str:
        return f"{self.problem}. {self.fix}"

    @property
    def problem(self) -> str:
        return f"{self.message}: {self.seen}, wanted {self.wanted}"

    def for_source(self) -> SourceFinding:
        """Return the finding as one of the connector's check."""
        code = self.error.exit_code if self.level == "error" else 0
        return SourceFinding(self.level, self.problem, self.fix, code)


def error_finding(error: type[SourceError], message: str, seen: object, wanted: str, fix: str) -> ServerFinding:
    return ServerFinding(error, "error", message, str(seen), wanted, fix)


def warning_finding(error: type[SourceError], message: str, seen: object, wanted: str, fix: str) -> ServerFinding:
    return ServerFinding(error, "warning", message, str(seen), wanted, fix)


def log_warnings(findings: Sequence[ServerFinding]) -> None:
    for finding in findings:
        if finding.level == "warning":
            log.warning("event=check %s", " ".join(str(finding).split()))


def require_ready(findings: Sequence[ServerFinding]) -> None:
    """Raise the errors among the findings: a single one as its specific error, several in one report."""
    errors = [finding for finding in findings if finding.level == "error"]
    if len(errors) == 1:
        only = errors[0]
        raise only.error(only.message, hint=only.fix, seen=only.seen, wanted=only.wanted)
    if errors:
        facts: dict[str, object] = {str(number): finding for number, finding in enumerate(errors, 1)}
        error = SourceNotReady(
            f"the server has {len(errors)} settings that prevent reading its changes",
            hint="change each of them as shown; penstock check reads them again",
        )
        error.facts.update(facts)
        raise error
