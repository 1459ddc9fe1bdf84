"""debezium-avro by schema: messages of one schema become rows without a Python object per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from penstock.errors import DecodeError
from penstock.formats.change import Bools, DecodeOptions, DecodeResult, Int64s, Messages
from penstock.formats.debezium.avro_changes import AvroChanges, chosen
from penstock.formats.debezium.avro_schema import HEAD_BYTES, Schema
from penstock.formats.debezium.avro_walk import Node

# Fewer messages of a schema are decoded faster one by one, if `bulk_rows` has its default.
_FEWEST = 40
# Messages and bytes that are walked at once.
_MOST, _MOST_BYTES = 20_000, 16 << 20

SchemaOf = Callable[[int], Schema]


def decode_by_schema(
    messages: Messages, schema_of: SchemaOf, options: DecodeOptions, decoded: DecodeResult
) -> Messages:
    """Add the rows of messages that are walked by their schema; return the other messages."""
    fewest = max(1, _FEWEST * options.bulk_rows // DecodeOptions().bulk_rows)
    accepted: Bools = np.zeros(len(messages), np.bool_)
    if len(messages) < fewest:
        return messages
    for value, key, numbers in _alike(messages):
        if len(numbers) >= fewest and len(value) == HEAD_BYTES:
            schemas = _schemas(value, key, schema_of)
            if schemas is not None:
                for part in _parts(messages, numbers):
                    accepted[part] = AvroChanges(messages, options, part, *schemas).add_to(decoded)
    return messages.take(np.flatnonzero(~accepted)) if accepted.any() else messages


def _alike(messages: Messages) -> Iterator[tuple[bytes, bytes | None, Int64s]]:
    """Yield the heads of values and keys, and the numbers of the messages that have both. A message needs a value."""
    values, of_value = _distinct([value and value[:HEAD_BYTES] for value in messages.values])
    keys, of_key = _distinct([key and key[:HEAD_BYTES] for key in messages.keys or [None] * len(messages)])
    pairs = of_value * len(keys) + of_key
    found, counts = np.unique(pairs, return_counts=True) if len(values) + len(keys) > 2 else ([0], [len(pairs)])
    for pair, count in zip(found, counts, strict=True):
        if value := values[pair // len(keys)]:
            numbers = np.arange(count) if count == len(pairs) else np.flatnonzero(pairs == pair)
            yield value, keys[pair % len(keys)], numbers


def _distinct(heads: list[bytes | None]) -> tuple[list[bytes | None], Int64s]:
    """Return the different heads, and the place of each head among them."""
    distinct = dict.fromkeys(heads)
    if len(distinct) == 1:
        return list(distinct), np.zeros(len(heads), np.int64)
    place = {head: number for number, head in enumerate(distinct)}
    return list(distinct), np.fromiter(map(place.__getitem__, heads), np.int64, len(heads))


def _schemas(value: bytes, key: bytes | None, schema_of: SchemaOf) -> tuple[Schema, Schema | None] | None:
    """Return the schemas of the values and of the keys; None if the messages cannot be walked."""
    try:
        schema = _schema(value, schema_of)
        own = None if key is None else _schema(key, schema_of)
    except DecodeError:
        return None
    if not _has_rows(schema) or not (own is None or _is_key(own)):
        return None
    return schema, own


def _schema(head: bytes, schema_of: SchemaOf) -> Schema:
    if len(head) < HEAD_BYTES or head[0]:
        raise DecodeError("the record is not in Confluent's wire format")
    return schema_of(int.from_bytes(head[1:], "big"))


def _has_rows(schema: Schema) -> bool:
    """Return whether this is an envelope of rows, in the form that is walked."""
    if schema.node is None or not schema.has_distinct_names:
        return False
    before, after, operation, time = map(schema.node.member, ("before", "after", "op", "ts_ms"))
    sides = [side for side in (before, after) if side is not None]
    is_row = sides and all(side.members and side.members == sides[0].members for side in sides)
    is_event = operation == Node("string") and (time is None or time.kind in {"int", "long"})
    return bool(is_row and is_event)


def _is_key(schema: Schema) -> bool:
    """Return whether the columns of this schema are its members, which are walked."""
    members = [] if schema.node is None else [name for name, _ in schema.node.members]
    return schema.has_distinct_names and members == [column.member for column in schema.columns]


def _parts(messages: Messages, numbers: Int64s) -> Iterator[Int64s]:
    sizes = np.cumsum([len(value) for value in chosen(messages.values, numbers)])
    part = np.maximum(sizes // _MOST_BYTES, np.arange(len(numbers)) // _MOST)
    yield from np.split(numbers, np.flatnonzero(np.diff(part)) + 1)
