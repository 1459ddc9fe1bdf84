"""Damaged replies of MongoDB: documents and events are decoded, or refused by a named error."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import bson
import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from penstock.formats.change import DecodeOptions, ImageRule
from penstock.ingest.mongodb.log.decode import EventDecoder
from penstock.ingest.mongodb.log.events import Events
from penstock.ingest.mongodb.rows import ColumnChoice, DocumentRows
from penstock.ingest.mongodb.server.replies import reply_of
from tests.fuzz.mutations import changed, changed_in_place, held, seeds
from tests.unit.ingest.mongodb.log.test_decode import event, insert, update

EVERY_TYPE: dict[str, Any] = {
    "double": 1.5,
    "text": "grün, a text that is longer than twelve bytes",
    "document": {"a": {"b": [1, "x", None]}},
    "array": [1, [2, {"c": 3}]],
    "binary": Binary(b"abc"),
    "old": Binary(b"abc", 2),
    "long": Binary(b"x" * 100),
    "id": ObjectId(b"123456789012"),
    "bool": True,
    "date": dt.datetime(2024, 2, 29),
    "null": None,
    "regex": Regex("a.*", "i"),
    "reference": DBRef("c", 1),
    "code": Code("f()"),
    "scoped": Code("f()", {"x": 1}),
    "int": 5,
    "time": Timestamp(5, 1),
    "number": Int64(5),
    "decimal": Decimal128("1.10"),
    "strange": Decimal128("1E+6000"),
    "max": MaxKey(),
    "min": MinKey(),
}
EVENTS = [
    insert(1, **EVERY_TYPE),
    insert("a", **EVERY_TYPE),
    update(1, {"text": "old"}, **EVERY_TYPE),
    event("drop"),
    event("delete", 1, fullDocumentBeforeChange={"_id": 1, **EVERY_TYPE}),
]


def damaged(raw: bytes, chance: random.Random) -> bytes:
    """Return the reply with some bytes changed, mostly of the same length, and a right length in its first bytes."""
    made = changed_in_place(raw, chance) if chance.random() < 0.7 else changed(raw, chance)
    return len(made).to_bytes(4, "little") + made[4:] if chance.random() < 0.8 else made


def read_events(raw: bytes) -> None:
    reply = reply_of(raw)
    block, at = reply.block, reply.documents
    oddities: Counter[str] = Counter()
    options = DecodeOptions(tables={("d", "t"): ImageRule("all", frozenset({"_id"}))})
    rows = DocumentRows(ColumnChoice(), oddities)
    for batch in EventDecoder(lambda *_: True, rows, options, True, oddities).decode(Events.of(block, at)):
        batch.rows.validate(full=True)


def read_documents(raw: bytes) -> None:
    reply = reply_of(raw)
    block, at = reply.block, reply.documents
    fields = (("a", ("document", "a", "b", "1")), ("b", ("array", "1", "1", "c")), ("s", ("scoped",)))
    for choice in (ColumnChoice(), ColumnChoice(hex_ids=False, fields=fields)):
        DocumentRows(choice, Counter()).rows(block, at, ("d", "t")).validate(full=True)


def reply(documents: list[dict[str, Any]]) -> bytes:
    cursor = {"firstBatch": documents, "postBatchResumeToken": {"_data": "8265"}, "id": Int64(7), "ns": "d.t"}
    return bson.encode({"cursor": cursor, "ok": 1.0, "operationTime": Timestamp(5, 1)})


REPLIES = {
    "events": (reply(EVENTS), read_events),
    "documents": (reply([{"_id": number, **EVERY_TYPE} for number in range(3)]), read_documents),
}


@pytest.mark.parametrize("what", sorted(REPLIES))
def test_a_damaged_reply_is_decoded_or_refused(what: str, request: pytest.FixtureRequest) -> None:
    raw, read = REPLIES[what]
    ended: Counter[str] = Counter()
    read(raw)
    for chance in seeds(request, 200, 20_000):
        case = damaged(raw, chance)
        ended[held(lambda case=case: read(case), case, size=len(case))] += 1  # type: ignore[misc]
    assert ended["well"] > ended.total() // 20
    assert ended["SourceError"] > ended.total() // 20
