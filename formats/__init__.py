"""The formats of source messages: each decodes the bytes of messages to ChangeBatches.

This package knows no Paimon types: columns are text or native Arrow, next to the type that the source declares.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import ConfigError
from penstock.extensions import Extensions
from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.formats.freed_memory import keep_freed_memory
from penstock.formats.message_format import Format

# By their places, so that a process imports the formats that it uses.
_BUILT_IN: dict[str, Format | str] = {
    "canal-json": "penstock.formats.canal.decode:FORMAT",
    "debezium-json": "penstock.formats.debezium.decode:FORMAT",
    "debezium-avro": "penstock.formats.debezium.avro:FORMAT",
    "debezium-bson": "penstock.formats.debezium.bson:FORMAT",
    "maxwell-json": "penstock.formats.maxwell:FORMAT",
    "ogg-json": "penstock.formats.ogg:FORMAT",
    "json": "penstock.formats.plain_json:FORMAT",
    "aliyun-json": "penstock.formats.aliyun:FORMAT",
    "aws-dms-json": "penstock.formats.aws_dms:FORMAT",
    "row-json": "penstock.formats.row_message:FORMAT",
}
FORMATS: Extensions[Format] = Extensions("penstock.formats", Format, _BUILT_IN)
# Measured: larger chunks are slower and use more memory, smaller ones are dominated by the fixed cost of a parse.
# Sources pass 20,000 messages at a time, and more if their rows are spread over many tables: the largest chunk is that
# of ranges that are read together.
CHUNK = 120_000
# A column of a chunk has 32-bit offsets, so the values of a chunk must stay far below 2 GiB.
CHUNK_BYTES = 256 << 20


def format_named(name: str) -> Format:
    """Return the format; ConfigError, with the names of all formats, if it is unknown."""
    found = FORMATS.find(name.lower())
    if found is None:
        hint = f"value.format is one of {', '.join(FORMATS.names())}"
        raise ConfigError(f"This format: {name} is not supported.", hint=hint)
    return found


def decode(name: str, messages: Messages, options: DecodeOptions | None = None) -> DecodeResult:
    """Decode all messages in chunks. Never raises for a bad record; ConfigError if the format is unknown."""
    format_ = format_named(name)
    options = options or DecodeOptions()
    keep_freed_memory()
    decoded = DecodeResult()
    with _without_cycle_collection():
        for start, stop in _chunks(messages, format_.leads or _is_whole):
            decoded.extend(format_.decode(messages.slice(start, stop), options))
    return decoded


def _is_whole(value: bytes | None) -> bool:
    return False


def _chunks(messages: Messages, leads: Callable[[bytes | None], bool]) -> Iterator[tuple[int, int]]:
    stop = 0
    while stop < len(messages):
        start, stop = stop, min(stop + CHUNK, len(messages))
        while stop < len(messages) and leads(messages.values[stop - 1]):
            stop += 1
        if sum(map(len, filter(None, messages.values[start:stop]))) <= CHUNK_BYTES:
            yield start, stop
        else:
            yield from _small_chunks(messages, start, stop, leads)


def _small_chunks(
    messages: Messages, start: int, stop: int, leads: Callable[[bytes | None], bool]
) -> Iterator[tuple[int, int]]:
    size = 0
    for number in range(start, stop):
        length = len(messages.values[number] or b"")
        if size + length > CHUNK_BYTES and number > start and not leads(messages.values[number - 1]):
            yield start, number
            start, size = number, 0
        size += length
    yield start, stop


@contextmanager
def _without_cycle_collection() -> Iterator[None]:
    """Turn the garbage collector off while decoding.

    A chunk creates several hundred thousand objects but no reference cycle, and the search for cycles took up to a
    third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
