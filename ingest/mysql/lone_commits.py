"""XA transactions that were prepared before a pipeline began to read the log, and committed since.

The log has their rows before the position at which the pipeline began. A table has them only if it was first read
after the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from penstock.ingest.mysql.errors import UnsupportedBinlogEvent

if TYPE_CHECKING:
    from penstock.ingest.mysql.binlog.log_plan import LogPlan
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
    if not plan.lone_commits or set(captured()) <= set(before.waiting):
        return
    first = plan.lone_commits[0]
    if not settings.accept_gap and settings.reads_tables and plan.prepared is not None:
        raise UnsupportedBinlogEvent(
            "an XA transaction was committed that was prepared before the pipeline began",
            transaction=first.name,
            file=first.file,
            pos=first.pos,
            hint="if it changed captured tables, their rows are missing: read the tables again (--resnapshot); "
            "if it did not, continue with --accept-gap",
        )
    # In one line: if it is not known what was prepared before, each of many commits may be one.
    text = "event=xa_rows_may_be_missing transactions=%d first=%s file=%s pos=%d"
    log.warning(text, len(plan.lone_commits), first.name, first.file, first.pos)
