"""Tables whose targets the next batch empties: their changes in the batch before it are not read.

Such changes need not be readable: that is a reason to reset a table. The batch was planned by an earlier run, which may
have failed because of them, and it has to be read for the other tables.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.ingest.connector_requests import TableName
    from penstock.ingest.database.settings import Address, DatabaseSettings

log = logging.getLogger(__name__)


class Reread(Protocol):
    """The end of a batch. `reread` is the last request to read tables again that was carried out."""

    @property
    def reread(self) -> str: ...


def unread_before_reset(settings: DatabaseSettings[Address], progress: Reread) -> list[TableName]:
    """Return the tables that the next batch empties by request of the command line.

    The request is stored first. Otherwise a run that ended before it planned the next batch, and one that was started
    without the request, would lose these changes.
    """
    if not (settings.is_requested(progress.reread) and settings.reset):
        return []
    settings.requests.add_emptying(settings.reset, settings.rereads)
    names = ",".join(map(".".join, settings.reset))
    log.info("event=changes_not_read tables=%s note=the next batch empties them and reads them", names)
    return list(settings.reset)
