"""Debezium's events with message keys, in JSON and in Avro: `python -m benchmarks.decode_keyed [events]`.

The events are those of `benchmarks.decode`: a row of 14 columns of one table, and the changes of the shop's four tables
with "shop". Each message has a key with the column `id`, from which the primary key is known. Keys of JSON have a
schema where their messages have one. Messages of Avro are in Confluent's wire format, one schema for each table, with
decimals and times as texts, as in the JSON. The peer of JSON is the decoder of single records; that of Avro is a mere
read of each value by fastavro.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import numpy as np

from benchmarks.decode import CONNECT, GOAL, Event, Message, debezium, debezium_schema, orders, seconds, shop
from benchmarks.figures import Figure, record
from penstock.formats import decode
from penstock.formats.change import DecodeOptions, Messages

AVRO = {"int64": "long", "int32": "int", "int16": "int", "double": "double"}
# The numbers of schemas: a row's is even, and that of its key follows.
FIRST_NUMBER = 2


def key_of(event: Event) -> Any:
    return (event.after or event.before or {})["id"]


def plain_key(event: Event) -> Message:
    return {"id": key_of(event)}


def key_with_schema(event: Event) -> Message:
    fields = [{"field": "id", "type": CONNECT.get(event.types["id"], "string"), "optional": False}]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": f"shop.shop.{event.table}.Key"}
    return {"schema": schema, "payload": plain_key(event)}


CASES: dict[str, tuple[Callable[[Event], Message], Callable[[Event], Message]]] = {
    "debezium-json, keys": (debezium, plain_key),
    "debezium-json, schema, keys": (debezium_schema, key_with_schema),
}


class Registry:
    """The schemas of tables and of their keys, as Debezium registers them, with the messages that they describe."""

    def __init__(self) -> None:
        self.schemas: list[Any] = []
        self._numbers: dict[str, int] = {}

    def schema(self, number: int) -> Any:
        return self.schemas[number - FIRST_NUMBER]

    def message(self, event: Event) -> tuple[bytes, bytes]:
        """Return the key and the value of an event."""
        number = self._numbers.get(event.table) or self._registered(event)
        source = {"db": "shop", "table": event.table}
        rows = {"before": event.before, "after": event.after}
        value = {**rows, "source": source, "op": event.kind("c", "u", "d"), "ts_ms": 1714557600200}
        return self._written(number + 1, {"id": key_of(event)}), self._written(number, value)

    def _registered(self, event: Event) -> int:
        number = self._numbers[event.table] = FIRST_NUMBER + len(self.schemas)
        kinds = {name: AVRO.get(CONNECT.get(kind, ""), "string") for name, kind in event.types.items()}
        fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
        row = {"type": "record", "name": "Value", "fields": fields}
        names = [{"name": "db", "type": "string"}, {"name": "table", "type": "string"}]
        members = [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": names}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ]
        space = f"shop.shop.{event.table}"
        self.schemas.append({"type": "record", "name": "Envelope", "namespace": space, "fields": members})
        key = [{"name": "id", "type": kinds["id"]}]
        self.schemas.append({"type": "record", "name": "Key", "namespace": space, "fields": key})
        return number

    def _written(self, number: int, value: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(self.schema(number)), value)
        return struct.pack(">bI", 0, number) + out.getvalue()


def json_messages(made: list[Event], value: Callable[[Event], Message], key: Callable[[Event], Message]) -> Messages:
    def written(write: Callable[[Event], Message]) -> Iterator[bytes]:
        return (json.dumps(write(event), ensure_ascii=False, separators=(",", ":")).encode() for event in made)

    return Messages(list(written(value)), np.arange(len(made)), list(written(key)))


def measure(title: str, messages: Messages, options: DecodeOptions, peer: Callable[[DecodeOptions], float]) -> None:
    name, events = title.partition(",")[0], len(messages)
    for images in ("key-changes", "all"):
        chosen = replace(options, before_images=images)
        assert not decode(name, messages, chosen).bad
        us = seconds(lambda chosen=chosen: decode(name, messages, chosen)) / events * 1e6
        other = peer(chosen) / events * 1e6
        print(f"{title}, {images}: {us:.2f} us an event, the peer {other:.2f}", flush=True)
        peer_name = "fastavro's read alone" if "avro" in name else "record by record"
        record(Figure(f"{title}, {images}", us, "us an event", other, peer_name, GOAL, less=True))


def measure_json(title: str, messages: Messages) -> None:
    def by_record(options: DecodeOptions) -> float:
        single = replace(options, bulk_rows=10 * len(messages))
        return seconds(lambda: decode(title.partition(",")[0], messages, single))

    measure(title, messages, DecodeOptions(), by_record)


def measure_avro(title: str, made: list[Event]) -> None:
    registry = Registry()
    keys, values = zip(*map(registry.message, made), strict=True)
    parsed = {number + FIRST_NUMBER: fastavro.parse_schema(schema) for number, schema in enumerate(registry.schemas)}

    def read_alone(_options: DecodeOptions) -> float:
        def read() -> None:
            for value in values:
                data = BytesIO(value)
                data.seek(5)
                fastavro.schemaless_reader(data, parsed[int.from_bytes(value[1:5], "big")], None)

        return seconds(read)

    messages = Messages(list(values), np.arange(len(values)), list(keys))
    measure(title, messages, DecodeOptions(registry=registry), read_alone)


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    for stream, made in (("", list(orders(events))), (", shop", list(shop(events)))):
        for title, (value, key) in CASES.items():
            measure_json(title + stream, json_messages(made, value, key))
        measure_avro("debezium-avro, keys" + stream, made)


if __name__ == "__main__":
    main()
