"""Column-wise decoding of blocks of Avro records, without arrays and maps: the number of their items varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.byte_buffers import at_every_byte, slices, validity
from penstock.table.files.avro.block_bytes import BlockBytes, Places
from penstock.table.files.avro.encode import counted
from penstock.table.files.avro.record_places import can_match, record_places
from penstock.table.files.avro.sizes import ENCODED_AS, NUMBER, RECORD, WIDTHS, kind_of
from penstock.table.files.avro.walk import Member, Path, Walk, can_walk, kinds, least_bytes
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import AtomicType, DataType, Field, RowType

Block = tuple[int, bytes]
Null = npt.NDArray[np.bool_]
_DECIMAL_BYTES, _WORD = 16, 8
# One step of a walk reads one value of each block at once. For fewer blocks than this, finding the values record by
# record with regular expressions costs less.
_LEAST_BLOCKS = 12


def can_decode(node: Any, blocks: Sequence[Block]) -> bool:
    """Return whether `decoded` supports this schema, and costs less for these blocks than decoding value by value."""
    return can_walk(node) and (can_match(node) or _are_side_by_side([count for count, _ in blocks]))


def _are_side_by_side(counts: Sequence[int]) -> bool:
    return sum(counts) >= _LEAST_BLOCKS * max(counts, default=0)


def decoded(blocks: Sequence[Block], schema: Mapping[str, Any], fields: Sequence[Field]) -> list[pa.Array]:
    """Return the columns `fields` of the blocks' records; a column that the file does not have is null.

    ValueError or IndexError when the bytes of a block do not contain exactly as many records as it says.
    """
    members, wanted = schema["fields"], {field.name: field.type for field in fields}
    least = least_bytes(members)
    for count, data in blocks:
        # Without this check, a damaged count could fill the memory.
        if count * least > len(data):
            raise ValueError(f"{count} records exceed the {len(data)} bytes of a block")
    bytes_ = BlockBytes([data for _, data in blocks], set(kinds(members)), least)
    starts, ends, counts = _records(blocks, members)
    columns = _Columns(bytes_, Walk(bytes_, members, wanted).places(starts, ends, counts))
    found = {
        member["name"]: columns.column((member["name"],), member["type"], wanted[member["name"]], None)
        for member in members
        if member["name"] in wanted
    }
    count = int(counts.sum())
    return [found[field.name] if field.name in found else pa.nulls(count, to_arrow(field.type)) for field in fields]


def _records(blocks: Sequence[Block], members: Sequence[Member]) -> tuple[Places, Places, Places]:
    """Return the starts, the ends and the numbers of records of the walks.

    A walk covers a block. If there are few blocks, their records are found first, and a walk covers a record.
    """
    counts = np.array([count for count, _ in blocks], np.int64)
    bounds = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum([len(data) for _, data in blocks], out=bounds[1:])
    if _are_side_by_side(counts.tolist()) or not all(can_match(member["type"]) for member in members):
        return bounds[:-1], bounds[1:], counts
    found = [
        bound + record_places(data, count, members)
        for bound, (count, data) in zip(bounds[:-1].tolist(), blocks, strict=True)
    ]
    starts = np.concatenate(found)
    return starts, np.append(starts[1:], bounds[-1]), np.ones(len(starts), np.int64)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The values of all records at known places."""

    bytes_: BlockBytes
    places: Mapping[Path, Places]

    def column(self, path: Path, node: Any, type_: DataType, null: Null | None) -> pa.Array:
        """Return a column that is null where `null` says so, and where its own values are."""
        nullable = isinstance(node, list)
        branch = node[1] if nullable else node
        if kind_of(branch) == RECORD:
            if nullable:
                null = self._null(self.places[path], null)
            return self._records(path, branch["fields"], type_, null)
        places = self.places[path]
        if nullable:
            null = self._null(places, null)
        assert isinstance(type_, AtomicType)
        return self._values(ENCODED_AS[kind_of(branch)], places + 1 if nullable else places, type_, null)

    def _null(self, places: Places, null: Null | None) -> Null | None:
        """Return which values are null: those of a null record, and those whose branch is null."""
        own = self.bytes_.data[places] != 2
        if null is not None:
            own |= null
        return own if own.any() else None

    def _values(self, kind: str, places: Places, type_: AtomicType, null: Null | None) -> pa.Array:
        if null is not None:
            # A null has no bytes after its branch. It is read from the zeros behind the blocks.
            places = np.where(null, self.bytes_.end, places)
        if kind in WIDTHS:
            return self._fixed(kind, places, type_, null)
        numbers, ends = self.bytes_.numbers(places)
        if kind == NUMBER:
            return _numbers(numbers, null, type_)
        if type_.root == "DECIMAL":
            return _decimals(self.bytes_.data, ends, ends + numbers, null, type_)
        found = slices(pa.binary(), self.bytes_.data, ends, numbers, _nulls(null, len(places)))
        return found.cast(to_arrow(type_))

    def _fixed(self, kind: str, places: Places, type_: AtomicType, null: Null | None) -> pa.Array:
        if kind == "boolean":
            bits = np.packbits(self.bytes_.data[places] != 0, bitorder="little")
            return pa.Array.from_buffers(pa.bool_(), len(places), [_there(null), pa.py_buffer(bits)]).cast(
                to_arrow(type_)
            )
        width = WIDTHS[kind]
        values = at_every_byte(self.bytes_.data, f"V{width}")[places]
        stored = pa.float32() if kind == "float" else pa.float64()
        return pa.Array.from_buffers(stored, len(places), [_there(null), pa.py_buffer(values)]).cast(to_arrow(type_))

    def _records(self, path: Path, members: Sequence[Member], type_: DataType, null: Null | None) -> pa.Array:
        types = {field.name: field.type for field in type_.fields} if isinstance(type_, RowType) else {}
        nodes = {member["name"]: member["type"] for member in members}
        arrow = to_arrow(type_)
        columns = [
            # Value and metadata of a VARIANT are not in the table's schema.
            self.column((*path, field.name), nodes[field.name], types.get(field.name, AtomicType("VARBINARY")), null)
            for field in arrow
        ]
        mask = None if null is None else pa.array(null)
        return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=mask)


def _there(null: Null | None) -> pa.Buffer | None:
    return None if null is None else validity(null)


def _nulls(null: Null | None, count: int) -> Null:
    return np.zeros(count, np.bool_) if null is None else null


def _numbers(numbers: npt.NDArray[np.int64], null: Null | None, type_: AtomicType) -> pa.Array:
    arrow = to_arrow(type_)
    found = pa.Array.from_buffers(pa.int64(), len(numbers), [_there(null), pa.py_buffer(numbers)])
    match type_.root:
        case "DATE" | "TIME":
            return found.cast(pa.int32()).view(arrow)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return found.view(counted(type_)).cast(arrow)
    return found.cast(arrow)


def _decimals(
    data: npt.NDArray[np.uint8], starts: Places, ends: Places, null: Null | None, type_: AtomicType
) -> pa.Array:
    """Return big-endian numbers of any length as Arrow decimals: two words of 64 bits, the low one first."""
    starts = np.maximum(starts, ends - _DECIMAL_BYTES)
    sizes = ends - starts
    words = np.empty((len(starts), 2), np.int64)
    at = at_every_byte(data, "V8")
    # The first bytes of a number, moved down so far that those of the following values are dropped. The shift fills the
    # upper bytes with the sign.
    first = at[starts].view(">i8").astype(np.int64)
    np.right_shift(first, _bits_above(np.minimum(sizes, _WORD)), out=words[:, 0])
    np.right_shift(first, 63, out=words[:, 1])
    words[sizes == 0] = 0
    long = np.flatnonzero(sizes > _WORD)
    if len(long):
        words[long, 0] = at[ends[long] - _WORD].view(">i8")
        words[long, 1] = first[long] >> _bits_above(sizes[long] - _WORD)
    return pa.Array.from_buffers(to_arrow(type_), len(starts), [_there(null), pa.py_buffer(words)])


def _bits_above(sizes: Places) -> Places:
    return np.minimum(64 - 8 * sizes, 63)
