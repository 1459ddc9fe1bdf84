"""Which format a message of JSON resembles: an error about a whole topic of another format names it."""

from __future__ import annotations

import json
from collections.abc import Mapping

# Names that messages of a format have, the more special ones first.
_MARKS = (
    ("canal-json", {"isDdl", "type", "data"}),
    ("maxwell-json", {"database", "table", "type", "data", "ts"}),
    ("ogg-json", {"op_type", "op_ts", "table"}),
    ("debezium-json", {"op", "after", "source"}),
    ("aws-dms-json", {"metadata", "data"}),
    ("aliyun-json", {"schema", "payload", "version"}),
)


def resembled_format(raw: bytes | None) -> str | None:
    """Return the format that a message has by its names, or None if it has those of no envelope."""
    try:
        message = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, Mapping):
        return None
    payload = message.get("payload")
    envelope = payload if isinstance(payload, Mapping) and "op" in payload else {}
    names = {*message, *envelope}
    found = next((name for name, marks in _MARKS if marks <= names), None)
    source = envelope.get("source", message.get("source"))
    # Of the same envelope, with documents of MongoDB as texts.
    is_of_mongodb = isinstance(source, Mapping) and "collection" in source
    return "debezium-bson" if found == "debezium-json" and is_of_mongodb else found
