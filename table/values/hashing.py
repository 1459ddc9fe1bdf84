"""Bucket hashes: Murmur3 over the words of BinaryRows, computed column by column without building the rows.

The state is one uint32 per row. The header and the slots are mixed in as whole columns. The variable part is mixed in
groups of rows whose tails have the same number of words.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import Hashes, Ints, filled_values, one_array
from penstock.table.values.row_columns import RowColumns, Tail, row_columns
from penstock.table.values.types import AtomicType, DataType

State = npt.NDArray[np.uint32]

_SEED = 42
# Number of rows mixed at a time. The state and the temporary arrays then fit into the second-level cache.
_CHUNK = 32_768
# Up to this number of rows, Python's integers mix a word of each row faster than numpy mixes the word of all rows: the
# call of numpy costs more. Long keys need it, since few of them have the same length.
_FEW = 16
_BITS = 0xFFFFFFFF


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Hashes:
    """Return the hash of every row of these columns, equal to Java's hash of its BinaryRow."""
    arrays = [one_array(column, to_arrow(type_)) for column, type_ in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    out = np.empty(count, np.int32)
    for start in range(0, count, _CHUNK):
        parts = row_columns([array.slice(start, _CHUNK) for array in arrays], types)
        out[start : start + _CHUNK] = _finish(_mixed(parts), parts.sizes)
    return out


def hash_row(row: bytes) -> int:
    """Return the hash of one row, given without its arity prefix."""
    state = np.full(1, _SEED, np.uint32)
    _mix_words(state, np.frombuffer(row, "<u4").reshape(1, -1))
    return int(_finish(state, np.full(1, len(row), np.int64))[0])


def _mixed(parts: RowColumns) -> State:
    state = np.full(parts.count, _SEED, np.uint32)
    if parts.header is None:
        # The header is zero in every row: mix it once.
        header_state = np.full(1, _SEED, np.uint32)
        for _ in range(parts.head_size // 4):
            _mix(header_state, np.zeros(1, np.uint32))
        state[:] = header_state
    else:
        _mix_words(state, parts.header.view("<u4"))
    for slots in parts.slots:
        _mix_words(state, np.ascontiguousarray(slots).view("<u4").reshape(-1, 2))
    for tail in parts.tails:
        _mix_tail(state, tail)
    return state


def _mix_tail(state: State, tail: Tail) -> None:
    spans = tail.spans
    if len(spans) == 0:
        return
    if spans.min() == spans.max():
        _mix_group(state, tail, int(spans[0]))
        return
    # numpy sorts 16-bit integers by radix, which is much faster.
    order = np.argsort((spans >> 3).astype(np.uint16) if spans.max() < 1 << 19 else spans, kind="stable")
    ordered, spans = tail.take(order), spans[order]
    bounds = np.flatnonzero(np.diff(spans, prepend=-1, append=-1))
    rows = order if ordered.rows is None else ordered.rows
    for begin, end in itertools.pairwise(bounds.tolist()):
        _mix_group(state, _part(ordered, rows, begin, end), int(spans[begin]))


def _part(tail: Tail, rows: Ints, begin: int, end: int) -> Tail:
    # These are slices of arrays that were sorted once, so nothing is copied per group.
    return Tail(rows[begin:end], tail.sizes[begin:end], tail.body[begin:end])


def _mix_group(state: State, tail: Tail, span: int) -> None:
    # Java hashes the padded row, so the zeros that fill the last word are mixed in too.
    words = tail.matrix(span).view("<u4")
    if tail.rows is None:
        _mix_words(state, words)
    else:
        state_of_tail = state[tail.rows]
        _mix_words(state_of_tail, words)
        state[tail.rows] = state_of_tail


def _mix_words(state: State, words: npt.NDArray[np.uint32]) -> None:
    if len(state) <= _FEW:
        _mix_few(state, words)
        return
    for i in range(words.shape[1]):
        _mix(state, words[:, i])


def _mix_few(state: State, words: npt.NDArray[np.uint32]) -> None:
    scrambled, _ = _scrambled(words)
    for place, mixed in enumerate(state.tolist()):
        for word in memoryview(scrambled[place]):
            mixed ^= word
            mixed = ((mixed << 13 | mixed >> 19) * 5 + 0xE6546B64) & _BITS
        state[place] = mixed


def _scrambled(words: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the words as they enter the state, and an array of the same size that may be written to."""
    # All steps after the first multiplication work in place, which saves temporary arrays.
    k = words * np.uint32(0xCC9E2D51)
    high = k << np.uint32(15)
    k >>= np.uint32(17)
    k |= high
    k *= np.uint32(0x1B873593)
    return k, high


def _mix(state: State, words: npt.NDArray[np.uint32]) -> None:
    k, high = _scrambled(words)
    state ^= k
    np.left_shift(state, np.uint32(13), out=high)
    state >>= np.uint32(19)
    state |= high
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)


def _finish(state: State, sizes: Ints) -> Hashes:
    # Murmur3 ends with the number of bytes, here that of the row with its header and without the arity prefix.
    state ^= sizes.astype(np.uint32)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state.view(np.int32)


_MOD_KEY = "set bucket-key to one column of type INT or BIGINT, or leave bucket-function.type out"


def bucket_of(hashes: Hashes, buckets: int) -> Hashes:
    """Return the buckets by the default function: the absolute value of Java's truncating remainder."""
    return np.abs(np.fmod(hashes, np.int32(buckets)))


def mod_bucket_of(column: pa.Array, type_: DataType, buckets: int) -> Hashes:
    """Return the buckets by `bucket-function.type` = mod: floorMod of one INT or BIGINT.

    A null counts as zero, as in Java.
    """
    if not isinstance(type_, AtomicType) or type_.root not in {"INT", "BIGINT"}:
        raise ConfigError("the mod bucket function needs one INT or BIGINT bucket key", hint=_MOD_KEY)
    values = filled_values(one_array(column, to_arrow(type_)), np.int32 if type_.root == "INT" else np.int64)
    return np.remainder(np.asarray(values, np.int64), buckets).astype(np.int32)


def bucket_rows(
    columns: Sequence[pa.Array], types: Sequence[DataType], buckets: int, function: str = "default"
) -> Hashes:
    """Return the bucket of every row from its bucket key columns, by the table's `bucket-function.type`."""
    match function:
        case "default":
            return bucket_of(hash_rows(columns, types), buckets)
        case "mod" if len(columns) == 1:
            return mod_bucket_of(columns[0], types[0], buckets)
        case "mod":
            raise ConfigError("the mod bucket function needs one bucket key", keys=len(columns), hint=_MOD_KEY)
    raise ConfigError(f"bucket-function.type {function!r} is not known", hint="choices are default and mod")
