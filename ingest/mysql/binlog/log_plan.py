"""The plan of a batch from the binlog: its ranges, its statements of DDL, and where the next plan starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.ingest.mysql.binlog.prepared_transactions import Lacking, LoneCommit
    from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
    from penstock.ingest.mysql.ddl.tables import TableChange
    from penstock.ingest.mysql.position import LogPosition


@dataclass(frozen=True, slots=True)
class LoggedDdl:
    """A change of a table's definition in the binlog, with its position."""

    change: TableChange
    file: str
    pos: int


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The ranges of a batch, in binlog order, and the start of the next plan.

    `barrier` contains DDL that must be applied between batches: such a plan contains nothing else and no ranges.
    `at_barrier` is true for such a plan and for the plan that ends just before it. `caught_up` is true if the plan
    reached the current end of the binlog, `adds_cascade` if a statement adds a foreign key that changes other rows.
    `prepared` are the XA transactions that are prepared at its end, None if they are not known, and `lacking` those
    whose rows some tables lack.
    """

    ranges: tuple[BinlogRange, ...]
    end: LogPosition
    ddl: tuple[LoggedDdl, ...] = ()
    barrier: tuple[LoggedDdl, ...] = ()
    caught_up: bool = False
    at_barrier: bool = False
    adds_cascade: bool = False
    prepared: tuple[str, ...] | None = None
    lone_commits: tuple[LoneCommit, ...] = ()
    lacking: Lacking = ()


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits of a plan: a batch ends at the first transaction start after `bytes`, ranges have about `range_bytes`.

    `until` stops the plan there at the latest. With `by_gtid` the server finds the start by the position's GTID set.
    `prepared` are the XA transactions that are prepared at the start, None if they are not known, and `lacking` those
    whose rows some tables lack.
    """

    bytes: int = 1 << 30
    range_bytes: int = 8 << 20
    until: LogPosition | None = None
    by_gtid: bool = False
    prepared: tuple[str, ...] | None = None
    lacking: Lacking = ()
