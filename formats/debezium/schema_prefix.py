"""The payloads of messages that embed their schema, found without parsing the schema of every message.

JsonConverter writes the schema in front of the payload and repeats it in every message of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_envelope import UNREADABLE

BARE = -1  # the message has no schema
_BEGIN, _PAYLOAD = b'{"schema":', b',"payload":'
_CLOSING = ord("}")
# The end of a schema has the name of its table: enough to find it again without hashing kilobytes.
_END = 160
_MOST = 4096


@dataclass(frozen=True, slots=True)
class EmbeddedPayloads:
    """The JSON text of each payload, None if the message needs the record path, and the number of its schema."""

    texts: list[bytes | None]
    schemas: Int64s


class SchemaPrefixes:
    """The schemas that this process has met, each with the bytes in front of the payload; bounded."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, tuple[bytes, int]] = {}
        self._schemas: list[bytes] = []
        self._latest: tuple[bytes, int] | None = None

    def schema(self, number: int) -> bytes:
        """Return the JSON text of a schema that `split` numbered before the next call of `split`."""
        return self._schemas[number]

    def split(self, values: Sequence[bytes | None]) -> EmbeddedPayloads:
        """Return the payloads of these messages; a message without schema is its own payload."""
        if len(self._schemas) > _MOST:
            self._numbers, self._schemas, self._latest = {}, [], None
        first = next((value for value in values if value), b"")
        if not first.startswith(_BEGIN):
            # Producers send all messages with a schema, or all without. The record path reads the exceptions.
            return EmbeddedPayloads(list(values), np.full(len(values), BARE, np.int64))
        prefix, number = self._of(first)
        size = len(prefix) or None
        # Most messages have the schema of the first one.
        texts = [
            value[size:-1] if size and value and value.startswith(prefix) and value[-1] == _CLOSING else None
            for value in values
        ]
        schemas = np.full(len(values), number, np.int64)
        for place, text in enumerate(texts):
            if text is None:
                texts[place], schemas[place] = self._split(values[place])
        return EmbeddedPayloads(texts, schemas)

    def _split(self, value: bytes | None) -> tuple[bytes | None, int]:
        if value is None or not value.startswith(_BEGIN):
            return value, BARE
        prefix, number = self._of(value)
        complete = number != BARE and value[-1] == _CLOSING
        return value[len(prefix) : -1] if complete else None, number

    def _of(self, value: bytes) -> tuple[bytes, int]:
        """Return the bytes in front of a payload and the number of their schema, BARE if it cannot be found."""
        latest = self._latest
        if latest is not None and value.startswith(latest[0]):
            return latest
        # These bytes cannot be part of a text in JSON, so they begin the payload, or a member inside the schema: such
        # a schema is no JSON by itself.
        at = value.find(_PAYLOAD)
        if at < 0:
            return b"", BARE
        prefix, end = value[: at + len(_PAYLOAD)], value[max(at - _END, 0) : at]
        found = self._numbers.get(end)
        if found is None or found[0] != prefix:
            schema = prefix[len(_BEGIN) : -len(_PAYLOAD)]
            if not _is_json(schema):
                return b"", BARE
            found = self._numbers[end] = (prefix, len(self._schemas))
            self._schemas.append(schema)
        self._latest = found
        return found


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except UNREADABLE:
        return False
    return True
