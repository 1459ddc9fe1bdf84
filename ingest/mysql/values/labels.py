"""Conversion to texts or bytes of ENUM, SET and BIT, and of MariaDB's UUID, INET4 and INET6.

The binlog contains them as small numbers or as plain bytes.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.byte_buffers import of_offsets, validity
from penstock.ingest.database.buffers import booleans, padded
from penstock.ingest.mysql.values.strings import by_distinct

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.mysql.values.rules import CellContext

_MEMBERS = pa.list_(pa.string())


def enum_labels(numbers: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    """Return the labels of ENUM numbers. Labels count from 1; 0 is the empty text of an invalid value."""
    labels = ("", *cells.column.type.labels)
    known = np.where(null, 0, numbers)
    if len(known) and known.max() >= len(labels):
        cells.refuse(
            f"label {known.max()}, but the type has only {len(labels) - 1} labels", "the ENUM has no such label"
        )
    return pa.array(labels, pa.string()).take(pa.array(known, mask=null))


def set_members(masks: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    """Return the labels of SET masks: one bit per label, the first label lowest; no bit is the empty list."""
    labels = cells.column.type.labels
    # Columns have few distinct masks, so the lists of labels are built once per mask.
    distinct, place = np.unique(np.where(null, 0, masks), return_inverse=True)
    if len(distinct) and int(distinct[-1]) >> len(labels):
        cells.refuse(
            f"bit mask {int(distinct[-1])}, but the type has only {len(labels)} labels", "the SET has no such label"
        )
    members = [[label for bit, label in enumerate(labels) if int(mask) >> bit & 1] for mask in distinct]
    return pa.array(members, _MEMBERS).take(pa.array(place.reshape(-1), mask=null))


def split_members(texts: pa.Array) -> pa.Array:
    """Return the members of texts like `a,b`: a label cannot contain a comma."""
    parted = pc.split_pattern(texts, ",")
    # An empty text is split into one empty member, but is the SET without members.
    empty = pc.fill_null(pc.equal(texts, ""), fill_value=False)
    if not pc.any(empty).as_py():
        return parted
    return pc.if_else(empty, pa.scalar([], _MEMBERS), parted)


def bits(data: Bytes, start: Int64s, length: Int64s, null: Bools, size: int) -> pa.Array:
    """Return BIT(1) as booleans, wider ones as bytes, most significant first."""
    width = (size + 7) // 8
    if size == 1:
        return booleans(data[np.where(null, 0, start)] > 0, null)
    return same_width(padded(data, np.where(null, 0, start), np.where(null, 0, length), width), null)


def same_width(matrix: Bytes, null: Bools) -> pa.Array:
    """Return binaries that all have the same width."""
    offsets = np.arange(len(matrix) + 1, dtype=np.int64) * matrix.shape[1]
    if validity(null) is None:
        return of_offsets(pa.binary(), matrix.reshape(-1), offsets, null)
    return pc.if_else(
        pa.array(~null), of_offsets(pa.binary(), matrix.reshape(-1), offsets, np.zeros_like(null)), pa.scalar(None)
    )


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
    # Addresses that contain one of IPv4 end in its dotted form.
    if first == 0 and (longest == 6 or (longest == 5 and words[5] == 0xFFFF)):
        return "::" + ("ffff:" if longest == 5 else "") + _inet4(raw[12:])
    before, after = words[:first], words[first + longest :]
    return ":".join(f"{word:x}" for word in before) + "::" + ":".join(f"{word:x}" for word in after)
