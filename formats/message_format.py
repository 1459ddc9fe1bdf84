"""The value that describes a message format: how its messages are decoded, and what it needs from their source."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from penstock.formats.change import DecodeOptions, DecodeResult, Messages

Decode: TypeAlias = Callable[[Messages, DecodeOptions], DecodeResult]
RowColumns: TypeAlias = Callable[[bytes], Collection[str] | None]


@dataclass(frozen=True, slots=True)
class Format:
    """A message format, registered by its name, which is the value of `value.format`.

    `decode` never raises for a record that it cannot read, but returns it in `DecodeResult.bad`. With `needs_key` the
    source fetches the keys of messages, where the format finds the primary key; with `needs_registry` a schema
    registry must be configured. `row_columns` is for formats that declare all columns of a table but may send rows
    without some: it returns the columns of a message's first row, or None if the message has none. `leads` is for
    formats with two messages for a change: it returns whether a message is decoded with the next one of its partition.
    `follows` returns whether a message may be the second one.
    `typing_hint` says how producers can be made to declare types.
    """

    name: str
    decode: Decode
    needs_key: bool = False
    needs_registry: bool = False
    row_columns: RowColumns | None = None
    typing_hint: str = ""
    leads: Callable[[bytes | None], bool] | None = None
    follows: Callable[[bytes | None], bool] | None = None
