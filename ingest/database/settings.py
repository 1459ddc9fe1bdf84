"""The settings that the sources of all databases have: which tables, and when to read tables again.

Plain data, safe to pickle and to print.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from penstock.formats.demand import ConditionLanguage, DemandPolicy
from penstock.ingest.connector_requests import SourceRequest, TableName, TableSelection
from penstock.storage.state_folder import StateFolder
from penstock.table_pattern import TablePattern

log = logging.getLogger(__name__)

# How long a running pipeline waits for an unreachable server.
PATIENCE_SECONDS = 60.0
# In the log; an estimate, for limits given in rows.
BYTES_PER_CHANGE = 200
# Per batch, because the bounds of chunks are stored in its offsets.
MAX_CHUNKS = 400
_LOG_BYTES = 256 << 20
_SNAPSHOT_ROWS = 2_000_000
# What to do when the file of a request is damaged.
REQUESTED_AGAIN = "delete the file, and request it again with  penstock signal PIPELINE snapshot TABLE"


@dataclass(frozen=True, slots=True)
class CapturedTables:
    """The selection of tables by full matches of regular expressions; excluding patterns win.

    The database of a PostgreSQL table is its schema. `left_out` are tables excluded for other reasons.
    """

    databases: str = ".*"
    tables: str = ".*"
    including: str = ".*"
    excluding: str | None = None
    including_databases: str = ".*"
    excluding_databases: str | None = None
    left_out: frozenset[TableName] = frozenset()
    names: str | None = None  # an expression for `database.table` as one text
    excluding_names: str | None = None

    @classmethod
    def selected(
        cls,
        databases: str,
        tables: str,
        selection: TableSelection,
        names: Sequence[str],
        excluding_names: Sequence[str],
    ) -> Self:
        """Return the tables that the section of the source and the selection of the pipeline name together."""
        return cls(
            databases,
            tables,
            selection.including_tables,
            selection.excluding_tables,
            selection.including_databases,
            selection.excluding_databases,
            names=names_pattern(names),
            excluding_names=names_pattern(excluding_names),
        )

    @property
    def limits(self) -> dict[str, str | None]:
        """Return the patterns that limit the tables further, as facts of an error that no table is left."""
        return {
            "including_tables": None if self.including == ".*" else self.including,
            "excluding_tables": self.excluding or self.excluding_names,
            "including_databases": None if self.including_databases == ".*" else self.including_databases,
            "excluding_databases": self.excluding_databases,
        }

    def includes(self, database: str, table: str) -> bool:
        return (database, table) not in self.left_out and self.matches(database, table)

    def matches(self, database: str, table: str) -> bool:
        return (
            _matches(self.databases, database)
            and _matches(self.tables, table)
            and _matches(self.including, table)
            and _matches(self.including_databases, database)
            and not _matches(self.excluding, table)
            and not _matches(self.excluding_databases, database)
            and (self.names is None or _matches(self.names, f"{database}.{table}"))
            and not _matches(self.excluding_names, f"{database}.{table}")
        )


def _matches(pattern: str | None, name: str) -> bool:
    return pattern is not None and re.fullmatch(pattern, name) is not None


def names_pattern(tables: Sequence[str]) -> str | None:
    """Return one regular expression that matches `database.table` for all of the tables; None without tables."""
    return "|".join(f"(?:{TablePattern.of(table).regex.pattern})" for table in tables) or None


def reread_mark(request: SourceRequest) -> str:
    """Return the name of the request to read all tables again, empty if the pipeline makes none."""
    return secrets.token_hex(4) if request.rereads else ""


@dataclass(frozen=True, slots=True)
class RereadRequest:
    """A request to read `tables` again, given as `table` or `database.table`.

    With `where`, only their rows that meet this condition. `is_own` if no user but the pipeline itself requests it.
    With `empties`, their targets are emptied first. With `every`, it is for all captured tables.
    """

    name: str
    tables: tuple[str, ...]
    where: str = ""
    is_own: bool = False
    empties: bool = False
    every: bool = False

    def names(self, table: TableName) -> bool:
        return self.every or not {table[1], ".".join(table)}.isdisjoint(self.tables)


@dataclass(frozen=True, slots=True)
class RereadRequests:
    """The requests to read tables again: one file each in a folder of the checkpoint."""

    folder: StateFolder

    def add(self, table: TableName) -> None:
        """Request, by the pipeline itself, that a table is read again."""
        content = json.dumps({"tables": [".".join(table)], "own": True}).encode()
        self.folder.write(f"{self.folder.prefix}{time.time_ns()}-{secrets.token_hex(4)}", content)

    def add_emptying(self, tables: Sequence[TableName], request: str) -> None:
        """Remember a request of the command line to empty tables and read them again, until a batch carries it out.

        Without tables, it is for all that are captured then.
        """
        content: dict[str, object] = {"tables": [".".join(name) for name in tables], "own": True, "empties": True}
        content |= {} if tables else {"every": True}
        self.folder.write(f"{self.folder.prefix}reset-{request}", json.dumps(content).encode())

    def resets(self) -> tuple[str, ...]:
        """Return the names of the pending requests to empty tables. A batch that empties all carries them out."""
        return tuple(request.name for request in self.pending(()) if request.empties)

    def pending(self, noted: Collection[str]) -> list[RereadRequest]:
        """Return the requests that the offsets do not name yet, and delete the others.

        A request is deleted only after offsets that name it were stored: a crash before that repeats it.
        """
        found = []
        for name in self.folder.names():
            if name in noted:
                self.folder.delete(name)
            elif (request := self.folder.read_json(name, REQUESTED_AGAIN)) is not None:
                where, is_own = request.get("where", ""), request.get("own", False)
                tables, empties = tuple(request["tables"]), request.get("empties", False)
                every = request.get("every", False)
                found.append(RereadRequest(name, tables, where, is_own, empties, every))
        return found


class Address(Protocol):
    """The address of a server. `patience` is how long to wait, in seconds, for one that cannot be reached."""

    @property
    def patience(self) -> float: ...


A_co = TypeVar("A_co", bound=Address, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings(Generic[A_co]):
    """The settings of a database source.

    `rereads` is a request that the offsets do not contain yet: empty the tables in `reset`, or all, and read them
    again. With `rereads_when_lost` this is done too if the log is gone. With `keyless_stops`, a table without a key is
    an error. With `fills_added_columns`, tables are read again for new columns that have values in older rows. `demand`
    decides which part of a table is read, and `language` is the language of conditions in requests. The targets of
    `outdated` tables, which do not exist, are emptied when tables of these names are created. With `shares_targets` a
    target may have several source tables, so that it cannot be emptied for one of them.
    """

    server: A_co
    tables: CapturedTables
    requests: RereadRequests
    new_tables: bool = True
    keyless_stops: bool = False
    rereads: str = ""
    reset: tuple[TableName, ...] = ()
    rereads_when_lost: bool = False
    outdated: frozenset[TableName] = frozenset()
    shares_targets: bool = False
    fills_added_columns: bool = False
    demand: DemandPolicy | None = None
    language: ConditionLanguage | None = None
    log_bytes: int = _LOG_BYTES
    snapshot_rows: int = _SNAPSHOT_ROWS

    @property
    @abstractmethod
    def reads_tables(self) -> bool:
        """True if a new pipeline first reads the rows that the tables have."""

    def is_requested(self, reread: str) -> bool:
        """Return whether tables are to be read again, given the last request that was carried out."""
        return bool(self.rereads) and self.rereads != reread


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedSettings(DatabaseSettings[A_co]):
    """The settings of a database whose tables are read in chunks of `chunk_rows` rows while the log continues."""

    mode: str = "initial"
    chunk_rows: int = 50_000

    @property
    def reads_tables(self) -> bool:
        return self.mode in {"initial", "snapshot"}

    @property
    def reads_new_tables(self) -> bool:
        """True if the rows of tables that are found later are read too."""
        return self.new_tables and self.reads_tables
