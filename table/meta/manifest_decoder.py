"""A decoder of manifest entries that creates ManifestEntry objects directly.

Planning a scan consists mostly of reading manifest entries. Decoding each record into a dict first would take half as
long again. These functions know a single layout, manifest_format.ENTRY_SCHEMA; fastavro reads all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.meta.entries import FileKind, ManifestEntry

T = TypeVar("T")
MANIFEST_VERSION = 2
_KINDS = tuple(FileKind)


def decode_entries(block: bytes, count: int) -> list[ManifestEntry]:
    """Return the entries of a block.

    Raise ValueError or IndexError when it does not contain exactly `count` entries.
    """
    at, entries = 0, []
    for _ in range(count):
        version, at = _long(block, at)
        kind, at = _long(block, at)
        if version != MANIFEST_VERSION:
            raise ValueError(f"version {version} of the entries is not {MANIFEST_VERSION}, the supported version")
        # A negative number would select from the end of _KINDS.
        if kind < 0:
            raise ValueError(f"{kind} is not a kind of entry")
        partition, at = _bytes(block, at)
        bucket, at = _long(block, at)
        total_buckets, at = _long(block, at)
        file, at = _file(block, at)
        entries.append(ManifestEntry(_KINDS[kind], partition, bucket, total_buckets, file))
    if at != len(block):
        raise ValueError(f"{count} entries end at byte {at} of {len(block)}")
    return entries


def _file(block: bytes, at: int) -> tuple[DataFile, int]:
    name, at = _text(block, at)
    size, at = _long(block, at)
    row_count, at = _long(block, at)
    min_key, at = _bytes(block, at)
    max_key, at = _bytes(block, at)
    key_stats, at = _stats(block, at)
    value_stats, at = _stats(block, at)
    min_sequence, at = _long(block, at)
    max_sequence, at = _long(block, at)
    schema_id, at = _long(block, at)
    level, at = _long(block, at)
    extra_files, at = _texts(block, at)
    creation_millis, at = _nullable(block, at, _long)
    delete_row_count, at = _nullable(block, at, _long)
    embedded_index, at = _nullable(block, at, _bytes)
    source, at = _nullable(block, at, _long)
    value_stats_cols, at = _nullable(block, at, _texts)
    external_path, at = _nullable(block, at, _text)
    first_row_id, at = _nullable(block, at, _long)
    write_cols, at = _nullable(block, at, _texts)
    file = DataFile(
        name,
        size,
        row_count,
        min_key,
        max_key,
        key_stats,
        value_stats,
        min_sequence,
        max_sequence,
        schema_id,
        level,
        extra_files,
        creation_millis,
        delete_row_count,
        embedded_index,
        source,
        value_stats_cols,
        external_path,
        first_row_id,
        write_cols,
    )
    return file, at


def _stats(block: bytes, at: int) -> tuple[ColumnStats, int]:
    min_values, at = _bytes(block, at)
    max_values, at = _bytes(block, at)
    null_counts, at = _nullable(block, at, _null_counts)
    return ColumnStats(min_values, max_values, null_counts or ()), at


def _long(block: bytes, at: int) -> tuple[int, int]:
    byte = block[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 127, 7
    while byte > 127:
        if shift > 63:
            raise ValueError("a number has more than ten bytes")
        byte = block[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at


def _bytes(block: bytes, at: int) -> tuple[bytes, int]:
    # Most values are shorter than 64 bytes. A length beyond the end of the block makes the slice shorter than it
    # says; decode_entries notices that the entries do not end with the block.
    length = block[at]
    if not length & 0x81:  # a length of a single byte that is not negative
        end = at + 1 + (length >> 1)
        return block[at + 1 : end], end
    length, at = _long(block, at)
    if length < 0:
        raise ValueError(f"{length} is not a valid length")
    return block[at : at + length], at + length


def _text(block: bytes, at: int) -> tuple[str, int]:
    data, at = _bytes(block, at)
    return data.decode(), at


def _nullable(block: bytes, at: int, value: Callable[[bytes, int], tuple[T, int]]) -> tuple[T | None, int]:
    # The number of the branch is a zigzag integer: 0 is the first branch, null, and 2 the second.
    branch = block[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise ValueError("a value selects a branch that its union does not have")
    return value(block, at + 1)


def _count(block: bytes, at: int) -> tuple[int, int]:
    """Return the number of items in the next block of an array; 0 ends the array.

    A negative count is followed by the block's size in bytes.
    """
    count, at = _long(block, at)
    if count < 0:
        count = -count
        _, at = _long(block, at)
    # An item has at least one byte. Without this check, a damaged count could fill the memory.
    if count > len(block) - at:
        raise ValueError(f"{count} items exceed the size of the file")
    return count, at


def _texts(block: bytes, at: int) -> tuple[tuple[str, ...], int]:
    if block[at] == 0:
        return (), at + 1
    found: list[str] = []
    count, at = _count(block, at)
    while count:
        for _ in range(count):
            text, at = _text(block, at)
            found.append(text)
        count, at = _count(block, at)
    return tuple(found), at


# `translate` deletes the bytes that are not a whole number from 0 to 63, so that their absence shows in the length,
# and halves the others, which undoes the zigzag coding.
_HALVED = bytes(byte >> 1 for byte in range(256))
_NEGATIVE_OR_LONG = bytes(byte for byte in range(256) if byte & 0x81)


def _null_counts(block: bytes, at: int) -> tuple[tuple[int | None, ...], int]:
    # Nearly always there are fewer than 64 numbers, each below 64, so each takes two bytes: the union's branch and the
    # number. This layout is decoded in one step.
    count = block[at] >> 1
    end = at + 1 + 2 * count
    numbers = block[at + 2 : end : 2].translate(_HALVED, _NEGATIVE_OR_LONG)
    if (
        not block[at] & 0x81
        and len(numbers) == count
        and block[at + 1 : end : 2].count(2) == count
        and (count == 0 or block[end] == 0)
    ):
        return tuple(numbers), end + (count > 0)
    return _null_counts_one_by_one(block, at)


def _null_counts_one_by_one(block: bytes, at: int) -> tuple[tuple[int | None, ...], int]:
    found: list[int | None] = []
    count, at = _count(block, at)
    while count:
        for _ in range(count):
            number, at = _nullable(block, at, _long)
            found.append(number)
        count, at = _count(block, at)
    return tuple(found), at
