"""The format that a JSON message resembles, for errors about topics whose messages have another format."""

from __future__ import annotations

import json
from collections.abc import Mapping

# Names of members that messages of a format have. Formats with more special names come first.
_MARKS = (
    ("canal-json", {"isDdl", "type", "data"}),
    ("maxwell-json", {"database", "table", "type", "data", "ts"}),
    ("ogg-json", {"op_type", "op_ts", "table"}),
    ("debezium-json", {"op", "after", "source"}),
    ("aws-dms-json", {"metadata", "data"}),
    ("aliyun-json", {"schema", "payload", "version"}),
)


def resembled_format(raw: bytes | None) -> str | None:
    """Return the format that a message has by the names of its members, None if no format has these names."""
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
    # debezium-bson has the same envelope, with documents of MongoDB as texts.
    is_of_mongodb = isinstance(source, Mapping) and "collection" in source
    return "debezium-bson" if found == "debezium-json" and is_of_mongodb else found
