"""The values that a connector returns: findings of a check, the way in which tables are captured, first records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal

from penstock.ingest.connector_requests import TableName
from penstock.ingest.source import Offsets, Range

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """One result of a check, with the fix if it is a problem. `code` is the exit code of an error."""

    level: Literal["ok", "warning", "error"]
    message: str
    fix: str = ""
    code: int = 0


def is_on_this_machine(host: str) -> bool:
    """Return whether a host, or the path of a socket, is reached without a network."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.startswith(("/", "@")):
        return True
    try:
        found = ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def unverified(hosts: Iterable[str], how: str, fix: str) -> list[SourceFinding]:
    """Return a warning about a connection on which nothing verifies who the server is, unless it is on this machine."""
    if all(map(is_on_this_machine, hosts)):
        return []
    between = "somebody between this machine and the server can read the connection, or change what arrives"
    return [SourceFinding("warning", f"{how}: {between}", fix)]


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The result of checking a source. `place` describes it in a few words; `tables` are those it would capture.

    `selections` describe, for tables that are read in part, which part it is. `hiding` are the tables with needed
    columns that the user may not read: a finding names them, and their schemas in `tables` lack those columns.
    `columns_of` is how many rows at each end of a table showed its columns, 0 if the source declares them.
    """

    place: str
    findings: Sequence[SourceFinding] = ()
    tables: Sequence[SourceSchema] = ()
    selections: Mapping[TableName, Sequence[str]] = field(default_factory=dict)
    hiding: frozenset[TableName] = frozenset()
    columns_of: int = 0


@dataclass(frozen=True, slots=True)
class TableCapture:
    """How a source that describes its tables captures them.

    `reads_rows`: the rows that a table has now are read first. `reads_new_tables`: the rows of tables that appear later
    are read first too. `renames_columns`: renamed columns are renamed in the target table at their position in the log.
    `includes` returns whether a table is captured, given the tables to leave out. `captured_before` returns the tables
    captured in the past, given the end of the last finished batch. `follows_drop`: when a source table is dropped, its
    target loses its rows.
    """

    reads_rows: bool
    reads_new_tables: bool
    renames_columns: bool
    includes: Callable[[TableName, frozenset[TableName]], bool]
    captured_before: Callable[[Offsets], Collection[TableName]]
    follows_drop: bool = False


@dataclass(frozen=True, slots=True)
class Sampler:
    """The first records of a message source: `ranges` returns ranges with about that number of records."""

    ranges: Callable[[int], list[Range]]
    place: str
