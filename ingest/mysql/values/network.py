"""MariaDB's UUID, INET4 and INET6, which the binlog contains as bytes: conversion to text."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.ingest.mysql.values.labels import same_width
from penstock.ingest.mysql.values.strings import by_distinct

if TYPE_CHECKING:
    from penstock.ingest.mysql.byte_view import Bools, Bytes


def addresses(matrix: Bytes, null: Bools, base: str) -> pa.Array:
    convert = {"uuid": _uuid, "inet4": _inet4, "inet6": _inet6}[base]
    return by_distinct(same_width(matrix, null), convert, pa.string())


def _uuid(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw))


def _inet4(raw: bytes) -> str:
    return ".".join(map(str, raw))


def _inet6(raw: bytes) -> str:
    """Return the address as the server prints it: the first longest run of zero words becomes `::`, even one word."""
    words = [int.from_bytes(raw[place : place + 2], "big") for place in range(0, 16, 2)]
    runs = [next((n for n, word in enumerate(words[place:]) if word), 8 - place) for place in range(8)]
    longest = max(runs)
    if not longest:
        return ":".join(f"{word:x}" for word in words)
    first = runs.index(longest)
    if first == 0 and (longest == 6 or (longest == 5 and words[5] == 0xFFFF)):
        return "::" + ("ffff:" if longest == 5 else "") + _inet4(raw[12:])
    before, after = words[:first], words[first + longest :]
    return ":".join(f"{word:x}" for word in before) + "::" + ":".join(f"{word:x}" for word in after)
