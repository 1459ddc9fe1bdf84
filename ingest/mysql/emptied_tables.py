"""Tables whose targets were emptied to be read again: their changes up to that moment are not read.

Such changes need not be readable: a session may have logged rows without all columns, or statements. The log is first
read up to its end at the time of the request, without these tables. Their rows are read after that.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.offsets import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.settings import FollowSettings

log = logging.getLogger(__name__)


def with_emptied(progress: Progress, names: Sequence[TableName], end: LogPosition) -> Progress:
    """Return the state in which these tables are read after `end`, the present end of the log."""
    progress = progress.reading(names)
    if progress.by_gtid:  # the position is one of another server, so it cannot be compared with the end
        return progress
    return replace(progress, emptied=tuple(dict.fromkeys([*progress.emptied, *names])), emptied_at=end)


def with_emptied_released(settings: FollowSettings, progress: Progress) -> Progress:
    """Return the state in which the emptied tables are read, once the log is past that moment or cannot reach it."""
    if progress.emptied_at is None:
        return progress
    waits = progress.log.is_before(progress.emptied_at) and not progress.by_gtid
    # A table that is read exactly as of a position must not be passed by the log.
    others = settings.snapshot == "exact" and not set(progress.unread) <= set(progress.emptied)
    return progress if waits and not others else replace(progress, emptied=(), emptied_at=None)


def unread_in(settings: FollowSettings, progress: Progress) -> list[TableName]:
    """Return the tables whose changes in the batch that ends here are not read.

    With a request to empty tables that is not carried out yet, they are the tables of the request: the next batch
    empties them. This batch was planned by an earlier run, which may have failed because it cannot be read.
    """
    if not (settings.is_requested(progress.reread) and settings.reset):
        return list(progress.emptied)
    names = ",".join(map(".".join, settings.reset))
    note = "the next batch empties them and reads them; if this run ends before it, start the next one with --reset too"
    log.warning("event=changes_not_read tables=%s note=%s", names, note)
    return [*settings.reset, *progress.emptied]
