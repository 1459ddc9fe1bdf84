"""XA transactions that were prepared before a pipeline read the log, or a table of it, and committed since.

The log has their rows before the position at which the pipeline began, or where it passed them because they concerned
no table that it captured. A table has them only if it was first read after the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from penstock.ingest.mysql.errors import UnsupportedBinlogEvent

if TYPE_CHECKING:
    from penstock.ingest.mysql.binlog.log_plan import LogPlan
    from penstock.ingest.mysql.binlog.prepared_transactions import LoneCommit
    from penstock.ingest.mysql.offsets import Progress
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.settings import FollowSettings

log = logging.getLogger(__name__)


def check_lone_commits(
    settings: FollowSettings, before: Progress, plan: LogPlan, captured: Callable[[], Collection[TableName]]
) -> None:
    """Raise UnsupportedBinlogEvent for such a commit if tables were read before it.

    It is logged instead if gaps are accepted, if tables are not read at all, or if the offsets do not say which
    transactions were prepared before.
    """
    if not plan.lone_commits:
        return
    everything, waiting = captured(), set(before.waiting)
    lone = [
        (commit, unread)
        for commit in plan.lone_commits
        if (unread := set(everything).intersection(commit.tables or everything) - waiting)
    ]
    if not lone:
        return
    for commit, tables in lone:
        if not settings.accept_gap and settings.reads_tables and (commit.tables or plan.prepared is not None):
            raise _missing(commit, tables)
    # In one line: if it is not known what was prepared before, each of many commits may be one.
    first, _ = lone[0]
    text = "event=xa_rows_may_be_missing transactions=%d first=%s file=%s pos=%d"
    log.warning(text, len(lone), first.name, first.file, first.pos)


def _missing(commit: LoneCommit, lacking: Collection[TableName]) -> UnsupportedBinlogEvent:
    began, which, names = "the pipeline began, or in a gap that was accepted", "captured tables", None
    again = "read the tables again (--resnapshot)"
    if commit.tables:
        began, which, names = "some tables were read", "these tables", ", ".join(sorted(map(".".join, lacking)))
        again = "request the tables again (penstock signal PIPELINE snapshot TABLE) and start the pipeline"
    return UnsupportedBinlogEvent(
        f"an XA transaction was committed that was prepared before {began}",
        tables=names,
        transaction=commit.name,
        file=commit.file,
        pos=commit.pos,
        hint=f"if it changed {which}, their rows are missing: {again}; if it did not, continue with --accept-gap",
    )
