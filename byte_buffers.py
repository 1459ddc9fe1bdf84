"""Numbers and texts at many positions of a buffer of bytes, read at once, as sources and file formats do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import DecodeError

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_INLINE, _WORD = 12, 8  # bytes of content within a view of Arrow, and of a word
_LARGEST = 2**31 - 1  # bytes that a signed offset of 32 bits addresses

# Every other group of 7, 14 and 28 bits in a word of eight bytes.
EVEN_GROUPS = np.array([0x007F007F007F007F, 0x00003FFF00003FFF, 0x000000000FFFFFFF], np.uint64)
ODD_GROUPS = np.array([0x7F007F007F007F00, 0x3FFF00003FFF0000, 0x0FFFFFFF00000000], np.uint64)
_MORE, _GROUPS, _ONE = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(1)
_NOTHING = np.empty(0, np.int64)
# The numbers of single bytes.
_SINGLE = np.array([byte >> 1 ^ -(byte & 1) for byte in range(128)], np.int64)


def has_any(mask: Bools) -> bool:
    """Return whether one of these is true."""
    # Of some thousand values, `any` takes three times as long.
    return bool(len(mask) and mask[0 if mask.strides == (0,) else mask.argmax()])


def at_every_byte(data: Bytes, dtype: str) -> npt.NDArray[Any]:
    """Return the buffer as numbers that start at each byte, to be indexed by positions. Overlapping, so read-only."""
    kind = np.dtype(dtype)
    # A stride of one byte makes element i the number that starts at byte i. Nothing is copied, and numpy allows
    # reads that are not aligned.
    return np.ndarray(max(len(data) - kind.itemsize + 1, 0), kind, buffer=data.data, strides=(1,))


def gathered_rows(data: Bytes, positions: Int64s, width: int) -> Bytes:
    """Return `width` bytes from each position, at most SPARE, as a matrix. Positions are not behind the spare bytes."""
    return at_every_byte(data, f"V{width}")[positions].view(np.uint8).reshape(len(positions), width)


def ranges(data: Bytes, positions: Int64s, lengths: Int64s) -> tuple[Bytes, Int64s]:
    """Return the bytes of all ranges one after another, and their offsets (one more than ranges)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    # Byte i of the result comes from `i + (position - offset)` of its range: one difference per range, repeated for
    # each of its bytes, plus the running number.
    index = np.repeat(positions - offsets[:-1], lengths)
    index += np.arange(len(index))
    return data[index], offsets


def validity(null: Bools) -> pa.Buffer | None:
    # Arrow marks values that are present, with the first value in the lowest bit. Without a bitmap all are present.
    return pa.py_buffer(np.packbits(~null, bitorder="little")) if has_any(null) else None


def of_offsets(kind: pa.DataType, content: Bytes, offsets: Int64s, null: Bools) -> pa.Array:
    # Strings and binaries of Arrow have offsets of 32 bits, which would wrap in silence.
    if (size := int(offsets[-1])) > np.iinfo(np.int32).max:
        raise DecodeError(
            f"{len(null)} values of a column have {size} bytes, and a batch has less than 2 GiB of them",
            hint="leave the column out, or split these values at the source",
        )
    buffers = [validity(null), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(null), buffers)


def slices(
    kind: pa.DataType, data: Bytes, start: Int64s, length: Int64s, null: Bools, head: Bytes | None = None
) -> pa.Array:
    """Return the strings or binaries at these positions of the buffer.

    `head`, if known, are their first 12 bytes and the four bytes before these.
    """
    # The lengths of null cells are arbitrary bytes from their positions, and must not be added up.
    length = np.where(null, 0, length) if has_any(null) else length
    # A view refers to its content by a signed offset of 32 bits, so it cannot address a larger buffer. Short cells are
    # read in two words, which must not extend beyond the buffer.
    is_unread = head is None and len(length) and int(start.max()) + 2 * _WORD > len(data)
    if len(data) > _LARGEST or not len(length) or is_unread:
        return of_offsets(kind, *ranges(data, start, length), null)
    view = pa.string_view() if pa.types.is_string(kind) else pa.binary_view()
    buffers = [validity(null), pa.py_buffer(_views(data, start, length, head)), pa.py_buffer(data)]
    return pa.Array.from_buffers(view, len(length), buffers).cast(kind)


def _views(data: Bytes, start: Int64s, length: Int64s, head: Bytes | None) -> Int64s:
    """Return the cells as views that are good only for a cast to strings or binaries.

    A cast copies the content. Anything else would need zeros behind short content.
    """
    # A view of Arrow has two words of 64 bits: the length and the first four bytes of the content, then either the
    # next eight bytes of short content, or the number of the buffer (0 here) and the offset in it.
    views = np.empty((len(length), 2), np.int64)
    if head is None:
        content = gathered_rows(data, start, 2 * _WORD).view("<i8")
        # Four bytes further, so that the length has room before them.
        np.left_shift(content[:, 0], 32, out=views[:, 0])
        np.left_shift(content[:, 1], 32, out=views[:, 1])
        views[:, 1] |= content[:, 0] >> 32 & 0xFFFFFFFF
    else:
        views[:] = head.view("<i8")
    views.view(np.int32)[:, 0] = length
    is_long = length > _INLINE
    if has_any(is_long):
        np.copyto(views[:, 1], start << 32, where=is_long)
    return views


def zigzag_numbers(data: Bytes, places: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the numbers at these places as Avro encodes them, and where they end.

    The third result contains the indexes of numbers that do not end within ten bytes. Ten bytes must follow each place.
    """
    first = data[places]
    if not len(first) or first.max() < 0x80:
        return _SINGLE[first], places + 1, _NOTHING
    words = at_every_byte(data, "V8")[places].view("<u8")
    # All bytes of a number except the last have their highest bit set: the lowest byte without it is the end.
    ends = ~words
    ends &= _MORE
    bits = ends - _ONE
    bits ^= ends
    sizes = np.bitwise_count(bits) >> 3
    words &= bits
    words &= _GROUPS
    _join_groups(words, int(sizes.max()))
    endless, stops = _NOTHING, places + sizes
    if has_any(ends == 0):
        long = np.flatnonzero(ends == 0)
        endless = long[_add_long(data, stops, words, long)]
    # The lowest bit is the sign.
    sign = (words & _ONE).view(np.int64)
    words >>= _ONE
    numbers = words.view(np.int64)
    numbers ^= -sign
    return numbers, stops, endless


def _join_groups(words: npt.NDArray[np.uint64], longest: int) -> None:
    """Move the seven bits of each byte together: bytes to groups of 14 bits, these to 28 bits, these to 56."""
    for step in range(3 if longest > 4 else 2 if longest > 2 else 1):
        odd = words & ODD_GROUPS[step]
        odd >>= np.uint64(1 << step)
        words &= EVEN_GROUPS[step]
        words |= odd


def _add_long(data: Bytes, stops: Int64s, words: npt.NDArray[np.uint64], long: Int64s) -> Bools:
    """Add the ninth and the tenth byte of long numbers, and return which of them have more."""
    more: Bools = np.ones(len(long), np.bool_)
    for shift in (56, 63):
        byte = np.where(more, data[stops[long]], 0).astype(np.uint64)
        words[long] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        stops[long] += more
        more &= byte >= 0x80
    return more
