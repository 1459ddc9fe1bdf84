"""The settings of MySQL capture: which tables, from which position, and how.

Plain data, safe to pickle and to print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from penstock.ingest.mysql.checkpoint_state import MySqlState
from penstock.ingest.mysql.server.address import ServerAddress
from penstock.ingest.mysql.server.catalog import SYSTEM_DATABASES, TableName
from penstock.ingest.mysql.snapshot.chunk import ChunkOptions
from penstock.ingest.mysql.values.rules import ValueRules

Mode = Literal["initial", "snapshot", "latest-offset", "earliest-offset", "timestamp", "specific-offset"]
SnapshotMode = Literal["watermark", "exact"]

_LOG_BYTES = 256 << 20
_SNAPSHOT_ROWS = 2_000_000


_SHADOW = re.compile(r"_(_?.+)_(?:gho|ghc|del|new|old)", re.DOTALL)


def shadowed(table: str) -> str | None:
    """Return the table that gh-ost or pt-online-schema-change copied here, by the copy's name.

    None for ordinary names.
    """
    found = _SHADOW.fullmatch(table)
    return found[1].removeprefix("_") if found else None


@dataclass(frozen=True, slots=True)
class CapturedTables:
    """The selection of tables by full matches of regular expressions; excluding patterns win.

    `left_out` are tables excluded for other reasons. Copies that schema change tools make of a captured table are not
    captured.
    """

    databases: str
    tables: str = ".*"
    including: str = ".*"
    excluding: str | None = None
    including_databases: str = ".*"
    excluding_databases: str | None = None
    left_out: frozenset[TableName] = frozenset()
    names: str | None = None  # an expression for `database.table` as one text
    excluding_names: str | None = None

    def takes(self, database: str, table: str) -> bool:
        if database in SYSTEM_DATABASES or (database, table) in self.left_out:
            return False
        original = shadowed(table)
        return (original is None or not self.takes(database, original)) and self._matches(database, table)

    def _matches(self, database: str, table: str) -> bool:
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


@dataclass(frozen=True, slots=True)
class MySqlStartup:
    """The start of a pipeline without a checkpoint; afterwards the checkpoint decides."""

    mode: Mode = "initial"
    file: str = ""
    pos: int = 4
    gtid: str = ""
    millis: int = 0

    @property
    def reads_tables(self) -> bool:
        return self.mode in {"initial", "snapshot"}


@dataclass(frozen=True, slots=True)
class Barriers:
    """The table changes that are applied between batches; all others are ignored, as in Paimon."""

    truncate: bool = False
    drop: bool = False
    rename_column: bool = False


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """The settings of a MySQL source.

    `state` is where the schema history and requests of users are stored. With `snapshot` watermark, rows are read as
    they are now and binlog events from the batch's position on are applied over them, which is right for tables where a
    change may arrive twice. With exact, every chunk is as of the pipeline's binlog position, which does not move until
    all chunks are read.
    """

    server: ServerAddress
    tables: CapturedTables
    state: MySqlState
    server_ids: tuple[int, int]
    startup: MySqlStartup = MySqlStartup()
    snapshot: SnapshotMode = "watermark"
    chunks: ChunkOptions = field(default_factory=ChunkOptions)
    rules: ValueRules = field(default_factory=ValueRules)
    barriers: Barriers = Barriers()
    zone: str = "UTC"
    comments: bool = False
    keyless: bool = False
    new_tables: bool = True
    resnapshot: str = ""  # a request that the offsets do not contain yet: empty the tables and read them again
    reset: tuple[TableName, ...] = ()  # if given, only these are emptied and read again
    accept_gap: bool = False  # continue from the oldest binlog file that is left
    resnapshot_when_lost: bool = False  # empty the tables and read them again if the binlog is gone
    keyless_stops: bool = False  # a table without key is an error, not left out
    first: tuple[str, ...] = ()  # expressions for `database.table`, in the order in which tables are to be read
    log_bytes: int = _LOG_BYTES
    snapshot_rows: int = _SNAPSHOT_ROWS

    def rank(self, name: TableName) -> int:
        """Return the priority of a table in the snapshot, lowest first."""
        of_it = (number for number, pattern in enumerate(self.first) if _matches(pattern, ".".join(name)))
        return next(of_it, len(self.first))

    def server_id(self, number: int) -> int:
        """Return the server id of the reader with this number."""
        first, last = self.server_ids
        return first + number % (last - first + 1)
