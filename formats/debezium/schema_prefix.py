"""The payloads of messages that embed their schema, found without parsing the schema of every message.

JsonConverter writes the schema in front of the payload and repeats it in every message of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
# Messages that are split before schemas that are new among them are indexed.
_BLOCK = 256
# So many schemas are found by the bytes in which they differ. At every so many bytes it is asked whether all do.
_MOST_INDEXED, _WIDTH = 256, 32


@dataclass(frozen=True, slots=True)
class EmbeddedPayloads:
    """The JSON text of each payload, None if the message needs the record path, and the number of its schema."""

    texts: list[bytes | None]
    schemas: Int64s


@dataclass(frozen=True, slots=True)
class SchemaIndex:
    """Schemas by some of their bytes, in which they differ as far as possible: all begin and most end alike."""

    begin: int
    schemas: Mapping[bytes, Sequence[tuple[bytes, int]]]
    count: int = 0

    @classmethod
    def of(cls, known: Sequence[tuple[bytes, int]]) -> SchemaIndex:
        """Return the index of these schemas."""
        shortest = min(len(prefix) for prefix, _ in known)
        begin = max(range(0, shortest, _WIDTH), key=lambda at: len({prefix[at : at + _WIDTH] for prefix, _ in known}))
        schemas: dict[bytes, list[tuple[bytes, int]]] = {}
        for found in known:
            schemas.setdefault(found[0][begin : begin + _WIDTH], []).append(found)
        return cls(begin, schemas, len(known))


class SchemaPrefixes:
    """The schemas that this process has met, each with the bytes in front of the payload; bounded."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, tuple[bytes, int]] = {}
        # By their last bytes. Tables may have these in common: only then are whole schemas hashed.
        self._ends: dict[bytes, tuple[bytes, int]] = {}
        self._schemas: list[bytes] = []
        self._latest: tuple[bytes, int] | None = None
        self._index = SchemaIndex(0, {})

    def schema(self, number: int) -> bytes:
        """Return the JSON text of a schema that `split` numbered before the next call of `split`."""
        return self._schemas[number]

    def split(self, values: Sequence[bytes | None]) -> EmbeddedPayloads:
        """Return the payloads of these messages; a message without schema is its own payload."""
        if len(self._schemas) > _MOST:
            self._numbers, self._ends, self._schemas, self._latest = {}, {}, [], None
            self._index = SchemaIndex(0, {})
        first = next((value for value in values if value), b"")
        if not first.startswith(_BEGIN):
            # Producers send all messages with a schema, or all without. The record path reads the exceptions.
            return EmbeddedPayloads(list(values), np.full(len(values), BARE, np.int64))
        texts: list[bytes | None] = []
        schemas: list[int] = []
        for begin in range(0, len(values), _BLOCK):
            self._split_block(values[begin : begin + _BLOCK], texts, schemas)
        return EmbeddedPayloads(texts, np.array(schemas, np.int64))

    def _split_block(self, values: Sequence[bytes | None], texts: list[bytes | None], schemas: list[int]) -> None:
        """Append the payloads of some messages, and the numbers of their schemas."""
        prefix, number = self._of(values[0] or b"")
        seen = (values[0], values[len(values) // 2], values[-1])
        if number != BARE and all(value and value.startswith(prefix) for value in seen):
            size = len(prefix)
            # Usually all messages of a topic have one schema.
            found = [
                value[size:-1] if value and value.startswith(prefix) and value[-1] == _CLOSING else None
                for value in values
            ]
            if all(found):
                texts += found
                schemas += [number] * len(found)
                return
        if self._index.count < min(len(self._numbers), _MOST_INDEXED):
            self._index = SchemaIndex.of([*self._numbers.values()][:_MOST_INDEXED])
        begin, known = self._index.begin, self._index.schemas
        end = begin + _WIDTH
        for value in values:
            whole = value or b""
            for prefix, number in known.get(whole[begin:end], ()):
                if whole.startswith(prefix) and whole[-1] == _CLOSING:
                    texts.append(whole[len(prefix) : -1])
                    schemas.append(number)
                    break
            else:
                text, number = self._split(value)
                texts.append(text)
                schemas.append(number)

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
