"""The errors of a MongoDB source; the hint of each says how to resolve it.

Errors of all databases are in ingest/database/findings.py.

SourceError
  NotAReplicaSet, ServerTooOld
  EmptyCollection           a collection has no document from which columns could be found
  PostImageMissing          an update came without the document that the target table needs
  EventTooLarge             an event exceeds 16 MiB
  CursorLost                the server closed a cursor (retryable)
PositionLost
  OplogLost                 the oplog no longer has the changes after the position
  ClusterChanged             the address leads to another replica set
"""

from __future__ import annotations

from penstock.errors import PositionLost, SourceError


class NotAReplicaSet(SourceError):
    pass


class ServerTooOld(SourceError):
    pass


class EmptyCollection(SourceError):
    pass


class PostImageMissing(SourceError):
    pass


class EventTooLarge(SourceError):
    pass


class CursorLost(SourceError):
    advice = "start again, or set  pipeline: {on-error: {retries: N}} : the change stream continues where it ended"


class OplogLost(PositionLost):
    pass


class ClusterChanged(PositionLost):
    pass
