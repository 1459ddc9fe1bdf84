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
# The end of a schema, which usually has the name of its table, finds it again without hashing kilobytes.
_END = 160
_MOST = 4096
# A schema that one of so many messages has is compared with all others; rarer ones are found message by message.
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class EmbeddedPayloads:
    """The JSON text of each payload, None if the message needs the record path, and the number of its schema."""

    texts: list[bytes | None]
    schemas: Int64s


class SchemaPrefixes:
    """The schemas that this process has met, each with the bytes in front of the payload; bounded."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, tuple[bytes, int]] = {}
        # By their last bytes. Tables may have these in common: only then are whole schemas hashed.
        self._ends: dict[bytes, tuple[bytes, int]] = {}
        self._schemas: list[bytes] = []
        self._latest: tuple[bytes, int] | None = None

    def schema(self, number: int) -> bytes:
        """Return the JSON text of a schema that `split` numbered before the next call of `split`."""
        return self._schemas[number]

    def split(self, values: Sequence[bytes | None]) -> EmbeddedPayloads:
        """Return the payloads of these messages; a message without schema is its own payload."""
        if len(self._schemas) > _MOST:
            self._numbers, self._ends, self._schemas, self._latest = {}, {}, [], None
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
        found = EmbeddedPayloads(texts, np.full(len(values), number, np.int64))
        if all(texts):
            return found
        left = [place for place, text in enumerate(texts) if text is None and values[place]]
        before = len(values)
        while before - len(left) > before // _FEWEST:
            before, left = len(left), self._split_alike(values, left, found)
        for place, text in enumerate(texts):
            if text is None:
                texts[place], found.schemas[place] = self._split(values[place])
        return found

    def _split_alike(self, values: Sequence[bytes | None], places: list[int], found: EmbeddedPayloads) -> list[int]:
        """Split the messages that have the schema of the first one of these; return the places of the others."""
        if not places:
            return places
        texts, first = found.texts, places[0]
        texts[first], found.schemas[first] = self._split(values[first])
        if texts[first] is None or found.schemas[first] == BARE:
            return places[1:]
        prefix, number = self._of(values[first] or b"")
        size, alike, others = len(prefix), list[int](), list[int]()
        for place in places:
            value = values[place]
            if value and value.startswith(prefix) and value[-1] == _CLOSING:
                texts[place] = value[size:-1]
                alike.append(place)
            else:
                others.append(place)
        found.schemas[alike] = number
        return others

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
        end = value[max(at - _END, 0) : at]
        found = self._ends.get(end)
        if found is None or not value.startswith(found[0]):
            prefix = value[: at + len(_PAYLOAD)]
            found = self._numbers.get(prefix) or self._new(prefix)
            if found is None:
                return b"", BARE
            self._ends[end] = found
        self._latest = found
        return found

    def _new(self, prefix: bytes) -> tuple[bytes, int] | None:
        """Number a schema that was not met before; return None if it is no JSON."""
        schema = prefix[len(_BEGIN) : -len(_PAYLOAD)]
        if not _is_json(schema):
            return None
        found = self._numbers[prefix] = (prefix, len(self._schemas))
        self._schemas.append(schema)
        return found


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except UNREADABLE:
        return False
    return True
