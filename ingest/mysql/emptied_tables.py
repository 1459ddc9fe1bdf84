"""Tables whose targets were emptied to be read again: their changes up to that moment are not read.

Such changes need not be readable: a session may have logged rows without all columns, or statements. The log is first
read up to its end at the time of the request, without these tables. Their rows are read after that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.database.requested_resets import unread_before_reset
from penstock.ingest.mysql.offsets import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.settings import FollowSettings


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
    if waits and not others:
        return progress
    return replace(progress.lacking_prepared(progress.emptied), emptied=(), emptied_at=None)


def unread_in(settings: FollowSettings, progress: Progress) -> list[TableName]:
    """Return the tables whose changes in the batch that ends here are not read."""
    return [*unread_before_reset(settings, progress), *progress.emptied]
