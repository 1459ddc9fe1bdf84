"""Replies of the server as they came, with the places of their documents."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.byte_buffers import Int64s
from penstock.ingest.database.findings import DamagedData
from penstock.ingest.mongodb.bson.elements import Block
from penstock.ingest.mongodb.bson.single_document import documents_at, members, text_at
from penstock.ingest.mongodb.bson.value_types import DAMAGE_HINT
from penstock.ingest.mongodb.server.cluster_time import ClusterTime


@dataclass(frozen=True, slots=True)
class Reply:
    """The documents of one reply. `token` is the resume token after them, `time` the server's operation time."""

    block: Block
    documents: Int64s
    cursor: int
    token: str
    time: ClusterTime


def joined(replies: Sequence[Reply]) -> Reply:
    """Return consecutive replies as one."""
    last = replies[-1]
    if len(replies) == 1:
        return last
    begins = itertools.accumulate((len(reply.block.raw) for reply in replies[:-1]), initial=0)
    documents = np.concatenate([reply.documents + begin for reply, begin in zip(replies, begins, strict=True)])
    return Reply(Block(b"".join(reply.block.raw for reply in replies)), documents, last.cursor, last.token, last.time)


def reply_of(raw: bytes) -> Reply:
    """Return the reply of `find`, `aggregate` or `getMore` without decoding its documents.

    Raise SourceError for a reply without documents.
    """
    try:
        return _reply(raw)
    except LookupError as reason:
        raise DamagedData(
            "the server sent a damaged reply", bytes=len(raw), missing=str(reason), hint=DAMAGE_HINT
        ) from reason


def _reply(raw: bytes) -> Reply:
    block = Block(raw)
    top = members(raw)
    cursor = members(raw, top["cursor"][1])
    array = cursor.get("firstBatch") or cursor["nextBatch"]
    token = ""
    if "postBatchResumeToken" in cursor:
        data = members(raw, cursor["postBatchResumeToken"][1]).get("_data")
        token = text_at(raw, data[1]) if data is not None else ""
    time_at = top["operationTime"][1] if "operationTime" in top else None
    now = int.from_bytes(raw[time_at : time_at + 8], "little") if time_at is not None else 0
    number = int.from_bytes(raw[cursor["id"][1] : cursor["id"][1] + 8], "little", signed=True)
    return Reply(block, documents_at(raw, array[1]), number, token, now)
