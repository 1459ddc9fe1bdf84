"""The settings of MySQL capture: which tables, from which position, and how.

Plain data, safe to pickle and to print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from penstock.ingest.database.settings import CapturedTables, DatabaseSettings
from penstock.ingest.mysql.server.address import ServerAddress
from penstock.ingest.mysql.server.catalog import SYSTEM_DATABASES, TableName
from penstock.ingest.mysql.snapshot.chunk import ChunkOptions
from penstock.ingest.mysql.values.rules import ValueRules
from penstock.storage.state_folder import StateFolder

Mode = Literal["initial", "snapshot", "latest-offset", "earliest-offset", "timestamp", "specific-offset"]
SnapshotMode = Literal["watermark", "exact"]

_SHADOW = re.compile(r"_(_?.+)_(?:gho|ghc|del|new|old)", re.DOTALL)


def shadowed(table: str) -> str | None:
    """Return the table that gh-ost or pt-online-schema-change copied here, by the copy's name.

    None for ordinary names.
    """
    found = _SHADOW.fullmatch(table)
    return found[1].removeprefix("_") if found else None


@dataclass(frozen=True, slots=True)
class MySqlTables(CapturedTables):
    """The selection of tables. Copies that schema change tools make of a captured table are not captured."""

    def includes(self, database: str, table: str) -> bool:
        if database in SYSTEM_DATABASES or (database, table) in self.left_out:
            return False
        original = shadowed(table)
        return (original is None or not self.includes(database, original)) and self.matches(database, table)


@dataclass(frozen=True, slots=True)
class StartPosition:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings(DatabaseSettings[ServerAddress]):
    """The settings of a MySQL source.

    `state` is where the schema history is stored. With `snapshot` watermark, rows are read as
    they are now and binlog events from the batch's position on are applied over them, which is right for tables where a
    change may arrive twice. With exact, every chunk is as of the pipeline's binlog position, which does not move until
    all chunks are read.
    """

    state: StateFolder
    server_ids: tuple[int, int]
    startup: StartPosition = StartPosition()
    snapshot: SnapshotMode = "watermark"
    chunks: ChunkOptions = field(default_factory=ChunkOptions)
    rules: ValueRules = field(default_factory=ValueRules)
    barriers: Barriers = Barriers()
    zone: str = "UTC"
    comments: bool = False
    keyless: bool = False
    accept_gap: bool = False  # continue from the oldest binlog file that is left
    first: tuple[str, ...] = ()  # expressions for `database.table`, in the order in which tables are to be read

    @property
    def reads_tables(self) -> bool:
        return self.startup.reads_tables

    def rank(self, name: TableName) -> int:
        """Return the priority of a table in the snapshot, lowest first."""
        of_it = (number for number, pattern in enumerate(self.first) if re.fullmatch(pattern, ".".join(name)))
        return next(of_it, len(self.first))

    def server_id(self, number: int) -> int:
        """Return the server id of the reader with this number."""
        first, last = self.server_ids
        return first + number % (last - first + 1)
