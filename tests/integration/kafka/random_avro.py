"""Changes of rows as Debezium's Avro messages, for random plays: each version of a table has a schema of its own."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Any

from tests.avro import message, optional
from tests.integration.kafka.random_messages import Change, Row
from tests.servers.registry import Registry

_KEY = {"type": "record", "name": "Key", "namespace": "s.d.t", "fields": [{"name": "id", "type": "int"}]}
_KINDS = {"INT": "int", "BIGINT": "long"}


@dataclass(frozen=True, slots=True)
class AvroMessages:
    """Keys and values in Confluent's wire format, with their schemas in a registry."""

    registry: Registry

    def write(self, change: Change, keys: bool = True) -> bytes:
        schema = _envelope(change.types)
        operation = "c" if change.before is None else "d" if change.after is None else "u"
        before = None if change.is_key_only else _whole(change.before, change.types)
        source = {"db": "shop", "table": change.table, "ts_ms": change.millis}
        images = {"before": before, "after": _whole(change.after, change.types)}
        return message(self.registry.register(schema), schema, {**images, "source": source, "op": operation})

    def key(self, key: int) -> bytes:
        return message(self.registry.register(_KEY), _KEY, {"id": key})

    def malformed(self, draw: random.Random) -> bytes:
        """Return a value that no Avro message is: without a header, with a schema that nobody knows, or cut."""
        return draw.choice((b'{"broken', struct.pack(">bI", 0, 1 << 30) + b"\x02", struct.pack(">bI", 0, 1)[:4]))


def _envelope(types: dict[str, str]) -> dict[str, Any]:
    fields: list[dict[str, Any]] = []
    for name, kind in types.items():
        known = _KINDS.get(kind, "string")
        fields.append(
            {"name": name, "type": optional(known), "default": None} if name != "id" else {"name": name, "type": known}
        )
    source = [("db", "string"), ("table", "string"), ("ts_ms", "long")]
    source_fields = [{"name": name, "type": kind} for name, kind in source]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "s.d.t",
        "fields": [
            {
                "name": "before",
                "type": optional({"type": "record", "name": "Value", "fields": fields}),
                "default": None,
            },
            {"name": "after", "type": optional("Value"), "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source_fields}},
            {"name": "op", "type": "string"},
        ],
    }


def _whole(row: Row | None, types: dict[str, str]) -> Row | None:
    """Return a row with all columns of its schema: one from before a column was added lacks it."""
    return None if row is None else {name: row.get(name) for name in types}
