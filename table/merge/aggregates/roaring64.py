"""Serialized sets of 64-bit numbers in the format of Java's Roaring64Bitmap, which is not the portable roaring format.

A bitmap consists of containers of 16-bit numbers, and an adaptive radix tree that maps the upper 48 bits to container
numbers:

    1 byte     0: the bitmap is empty, and nothing follows; 1: it is not empty
    8          number of leaves, little endian like all numbers that follow
    tree       a node, then its children in the order of their keys:
               type (1), children (2), length of the prefix (1), prefix, then by type
               0: 4 keys | 1: two words of 8 keys, first key highest | 2: 32 words of 8 places, place 255: no child
               3: 4 words, one bit per key | 4 (leaf): 6 bytes of key, number of the container (8)
    4          levels of containers; each: mark (1), count (4), containers: 0 if absent, or
               1, type (1), cardinality (4), then by type
               0: number of runs (2), start and length - 1 of each (2 + 2) | 1: 1024 words | 2: values (2 each)
    8, 4, 4    number of containers, last level, last place in that level
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[np.uint16]]
Containers = dict[bytes, Values]  # low 16 bits in ascending order, by the upper 48 bits in big endian
_TRIMMED = 0xFE
_NODE, _LEAF, _TAIL = struct.Struct("<BHB"), 4, struct.Struct("<qii")
_RUNS, _BITS, _ARRAY = range(3)
_ARRAY_MOST = 4096
_BITS_BYTES = 8192


def union(bitmaps: Iterable[bytes]) -> bytes:
    """Return the union of bitmaps. ValueError when any of them is not such a bitmap."""
    together: Containers = {}
    for bitmap in bitmaps:
        for high, values in decode(bitmap).items():
            known = together.get(high)
            together[high] = values if known is None else np.union1d(known, values)
    return encode(together)


def encode(containers: Mapping[bytes, Values]) -> bytes:
    """Return containers as a serialized bitmap."""
    if not containers:
        return b"\0"
    keys = sorted(containers)
    tree = b"".join(_tree(keys, 0, {key: number for number, key in enumerate(keys)}))
    held = b"".join(_container(containers[key]) for key in keys)
    count = len(keys)
    head = b"\1" + struct.pack("<q", count)
    return head + tree + struct.pack("<iBi", 1, _TRIMMED, count) + held + _TAIL.pack(count, 0, count - 1)


def _tree(keys: list[bytes], depth: int, numbers: Mapping[bytes, int]) -> Iterable[bytes]:
    if len(keys) == 1:
        yield _NODE.pack(_LEAF, 0, 0) + keys[0] + struct.pack("<q", numbers[keys[0]])
        return
    end = depth
    # The keys are sorted, so bytes that the first and the last share are shared by all.
    while keys[0][end] == keys[-1][end]:
        end += 1
    branches: dict[int, list[bytes]] = {}
    for key in keys:
        branches.setdefault(key[end], []).append(key)
    kind, body = _branching(list(branches))
    yield _NODE.pack(kind, len(branches), end - depth) + keys[0][depth:end] + body
    for branch in branches.values():
        yield from _tree(branch, end + 1, numbers)


def _branching(keys: list[int]) -> tuple[int, bytes]:
    if len(keys) <= 4:
        return 0, bytes(keys).ljust(4, b"\0")
    if len(keys) <= 16:
        return 1, _words_reversed(bytes(keys).ljust(16, b"\0"))
    if len(keys) <= 48:
        places = bytearray(b"\xff" * 256)
        for place, key in enumerate(keys):
            places[key] = place
        return 2, _words_reversed(bytes(places))
    bits = sum(1 << key for key in keys)
    return 3, bits.to_bytes(32, "little")


def _words_reversed(data: bytes) -> bytes:
    return b"".join(data[i : i + 8][::-1] for i in range(0, len(data), 8))


def _container(values: Values) -> bytes:
    count = len(values)
    starts = np.flatnonzero(np.diff(values.astype(np.int64), prepend=-2) != 1)
    lengths = np.diff(starts, append=count) - 1
    # The smallest of the three forms: four bytes per run, two per value, or a bit for each of 65,536 values.
    if 2 + 4 * len(starts) < min(2 * count, _BITS_BYTES):
        runs = np.stack([values[starts].astype("<u2"), lengths.astype("<u2")], axis=1)
        return struct.pack("<BBiH", 1, _RUNS, count, len(starts)) + runs.tobytes()
    if count <= _ARRAY_MOST:
        return struct.pack("<BBi", 1, _ARRAY, count) + values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[values] = 1
    return struct.pack("<BBi", 1, _BITS, count) + np.packbits(bits, bitorder="little").tobytes()


def decode(data: bytes) -> Containers:
    """Return the containers of a serialized bitmap. ValueError when the bytes are not such a bitmap."""
    try:
        return _BitmapReader(data).bitmap()
    except (struct.error, IndexError, KeyError) as reason:
        raise ValueError("the value is not a roaring bitmap of 64-bit numbers in Java's format") from reason


@dataclass
class _BitmapReader:
    """A parser of a serialized bitmap."""

    data: bytes
    place: int = 0

    def bitmap(self) -> Containers:
        if self._number("<B") == 0:
            return {}
        self._number("<q")
        numbers = dict(self._leaves())
        containers: dict[int, Values] = {}
        for level in range(self._number("<i")):
            self._number("<B")
            for place in range(self._number("<i")):
                if self._number("<B"):
                    containers[level << 32 | place] = self._container()
        return {key: containers[number] for key, number in numbers.items()}

    def _number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.place)
        self.place += struct.calcsize(layout)
        return int(value)

    def _bytes(self, count: int) -> bytes:
        part = self.data[self.place : self.place + count]
        if count < 0 or len(part) < count:
            raise IndexError(count)
        self.place += count
        return part

    def _leaves(self) -> Iterable[tuple[bytes, int]]:
        """Yield the key and the container number of each leaf.

        Leaves contain their whole key, so inner nodes are skipped.
        """
        kind, children, prefix = _NODE.unpack(self._bytes(_NODE.size))
        self._bytes(prefix)
        if kind == _LEAF:
            yield self._bytes(6), self._number("<q")
            return
        self._bytes((4, 16, 256, 32)[kind])
        for _ in range(children):
            yield from self._leaves()

    def _container(self) -> Values:
        kind, count = self._number("<B"), self._number("<i")
        if kind == _ARRAY:
            return np.frombuffer(self._bytes(2 * count), "<u2").astype(np.uint16)
        if kind == _BITS:
            bits = np.unpackbits(np.frombuffer(self._bytes(_BITS_BYTES), np.uint8), bitorder="little")
            return np.flatnonzero(bits).astype(np.uint16)
        runs = np.frombuffer(self._bytes(4 * self._number("<H")), "<u2").reshape(-1, 2).astype(np.int64)
        parts = [np.arange(start, start + length + 1) for start, length in runs.tolist()]
        return np.concatenate(parts).astype(np.uint16) if parts else np.zeros(0, np.uint16)
