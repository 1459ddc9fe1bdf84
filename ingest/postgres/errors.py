"""The errors of a PostgreSQL source; the hint of each says how to resolve it.

Errors of all databases are in ingest/database/findings.py.

SourceError
  WalLevelError, NoFreeSlot, PublicationMissing, TableNotPublished
  IdentityTooWeak           the replica identity of a table lacks what its target needs
  AmbiguousKey              keys of a table that differ at the source would be one key in its target
  BehindPooler              the address is that of a pooler, which passes on too little
  SlotBusy                  another reader uses the slot (retryable)
  UnexpectedMessage         the server sent a message that contradicts the protocol (retryable)
  TableEmptied              the rows of a table at a position are not known (of PastUnknown)
PositionLost
  SlotMissing, SlotLost, SlotAhead, ServerChanged
  Diverged                  a promoted standby or a restored server lacks the end of the log that was read
"""

from __future__ import annotations

from penstock.errors import PositionLost, SourceError
from penstock.ingest.database.findings import DamagedData
from penstock.ingest.source import PastUnknown


class WalLevelError(SourceError):
    pass


class NoFreeSlot(SourceError):
    pass


class PublicationMissing(SourceError):
    pass


class TableNotPublished(SourceError):
    pass


class IdentityTooWeak(SourceError):
    pass


class AmbiguousKey(SourceError):
    pass


class BehindPooler(SourceError):
    way_out = (
        "set hostname and port to those of the PostgreSQL server itself: a pipeline reads the log on a connection for "
        "replication, and values with settings of its session"
    )
    advice = way_out


class SlotBusy(SourceError):
    pass


class UnexpectedMessage(DamagedData):
    advice = (
        "start again, and connect to the server directly if a proxy is in between; if it happens again, report it with "
        "the version of the server"
    )


class SlotMissing(PositionLost):
    pass


class SlotLost(PositionLost):
    pass


class SlotAhead(PositionLost):
    pass


class ServerChanged(PositionLost):
    pass


class Diverged(PositionLost):
    pass


class TableEmptied(PastUnknown):
    """The table was emptied after the position, and the log does not have the rows that it had."""
