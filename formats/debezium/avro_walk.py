"""The values of Avro messages of one schema, found side by side.

The place of an Avro value is known only after the value before it was read. But the place of each message is known, so
all messages are walked at once: a step reads one value of each message, with a few calls of numpy.

If a step finds an invalid value, such as a text that is longer than its message, it marks the message as odd. The other
values of this message are read from the bytes that follow, and have no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.byte_buffers import at_every_byte, has_any, slices, validity, zigzag_numbers
from penstock.formats.change import Bools, Int64s

_WIDTHS = {"float": 4, "double": 8, "boolean": 1}
_TEXTS, _NUMBERS, _RECORD = frozenset({"string", "bytes"}), frozenset({"int", "long"}), "record"
_SCALARS = _TEXTS | _NUMBERS | _WIDTHS.keys()
# Messages with more values than this are read one by one.
_MOST_VALUES = 5_000
# The most bytes that a step passes without a look at the end of the message, and bytes that are read at once.
_STEP, _AHEAD = 12, 32


class Node(NamedTuple):
    """The type of a value, and the number of the branch of null if it is in a union with null."""

    kind: str
    null: int | None = None
    members: tuple[tuple[str, Node], ...] = ()
    values: int = 1

    def member(self, name: str) -> Node | None:
        return dict(self.members).get(name)


@dataclass(frozen=True, slots=True)
class Records:
    """Records within the walked ones: their members, and which of the outer records have one (None: all)."""

    members: Mapping[str, Member]
    count: int
    present: Int64s | None

    def structs(self) -> pa.Array:
        """Return the records as structs, one for each outer record."""
        columns = [column_of(member) for member in self.members.values()]
        found = pa.StructArray.from_arrays(columns, names=list(self.members))
        if self.present is None:
            return found
        place = np.full(self.count, -1, np.int64)
        place[self.present] = np.arange(len(self.present))
        return found.take(pa.array(place, mask=place < 0))


Member: TypeAlias = "pa.Array | Records"


def column_of(member: Member) -> pa.Array:
    """Return a member as a column: records as structs."""
    return member.structs() if isinstance(member, Records) else member


def node_of(schema: Any, named: dict[str, Node] | None = None) -> Node | None:
    """Return the node of a schema that fastavro has parsed; None if its values cannot be walked."""
    named = {} if named is None else named
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(schema) != 2 or len(branches) != 1:
            return None
        node = node_of(branches[0], named)
        return node and node._replace(null=schema.index("null"))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == _RECORD:
        return _record_node(schema, named)
    if not isinstance(kind, str):
        return None
    return Node(kind) if kind in _SCALARS else named.get(kind)


def _record_node(schema: Mapping[str, Any], named: dict[str, Node]) -> Node | None:
    found = {field["name"]: node_of(field["type"], named) for field in schema["fields"]}
    members = tuple((name, node) for name, node in found.items() if node is not None)
    values = 1 + sum(node.values for _, node in members)
    if not members or len(members) < len(schema["fields"]) or values > _MOST_VALUES:
        return None
    node = named[schema["name"]] = Node(_RECORD, None, members, values)
    return node


class Walk:
    """A walk through the messages, which are records of `node` after a head of `head` bytes.

    `odd` are the messages that are not exactly such a record.
    """

    def __init__(self, messages: Sequence[bytes], node: Node, head: int) -> None:
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        ends = np.cumsum(sizes)
        self._end = int(ends[-1])
        self._data = np.frombuffer(b"".join([*messages, bytes(_STEP * node.values + _AHEAD)]), np.uint8)
        self.odd: Bools = np.zeros(len(messages), np.bool_)
        self.members, at = self._record(node, ends - sizes + head, _Walked(np.arange(len(messages)), ends))
        self.odd |= at != ends

    def _record(self, node: Node, at: Int64s, walked: _Walked) -> tuple[dict[str, Member], Int64s]:
        members: dict[str, Member] = {}
        for name, member in node.members:
            members[name], at = self._value(member, at, walked)
        return members, at

    def _value(self, node: Node, at: Int64s, walked: _Walked) -> tuple[Member, Int64s]:
        null = None
        if node.null is not None:
            branch = self._data[at]
            at = at + 1
            is_null = branch == 2 * node.null
            null = is_null if has_any(is_null) else None
            wrong = (branch & 0xFD) != 0
            if has_any(wrong):
                self.odd[walked.messages[wrong]] = True
        if node.kind == _RECORD:
            return self._nested(node, at, null, walked)
        if node.kind in _WIDTHS:
            return self._fixed(node.kind, at, null)
        return self._counted(node.kind, at, null, walked)

    def _nested(self, node: Node, at: Int64s, null: Bools | None, walked: _Walked) -> tuple[Member, Int64s]:
        if null is None:
            members, at = self._record(node, at, walked)
            return Records(members, len(at), None), at
        present = np.flatnonzero(~null)
        members, at[present] = self._record(node, at[present], walked.of(present))
        return Records(members, len(at), present), at

    def _fixed(self, kind: str, at: Int64s, null: Bools | None) -> tuple[pa.Array, Int64s]:
        width = _WIDTHS[kind]
        if kind == "boolean":
            values: Any = np.packbits(self._data[at] != 0, bitorder="little")
        else:
            values = at_every_byte(self._data, f"V{width}")[at]
        type_ = {"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64()}[kind]
        column = pa.Array.from_buffers(type_, len(at), [_present(null), pa.py_buffer(values)])
        return column, at + width if null is None else np.where(null, at, at + width)

    def _counted(self, kind: str, at: Int64s, null: Bools | None, walked: _Walked) -> tuple[pa.Array, Int64s]:
        """Return numbers, or texts, whose length is a number in front of them."""
        # A null has no bytes after its branch: its number or length is read from the zeros after the messages.
        places = at if null is None else np.where(null, self._end, at)
        numbers, ends, endless = zigzag_numbers(self._data, places)
        self.odd[walked.messages[endless]] = True
        if kind in _NUMBERS:
            column = pa.Array.from_buffers(pa.int64(), len(at), [_present(null), pa.py_buffer(numbers)])
        else:
            # Without this check, damaged messages could have texts as long as all messages together.
            wrong = numbers > (walked.ends - ends if null is None else np.where(null, 0, walked.ends - ends))
            wrong |= numbers < 0
            if has_any(wrong):
                self.odd[walked.messages[wrong]] = True
                numbers[wrong] = 0
            column = self._texts(kind, ends, numbers, null, walked)
            ends = ends + numbers
        return column, ends if null is None else np.where(null, at, ends)

    def _texts(self, kind: str, starts: Int64s, lengths: Int64s, null: Bools | None, walked: _Walked) -> pa.Array:
        nulls = np.broadcast_to(np.False_, len(starts)) if null is None else null
        found = slices(pa.binary(), self._data, starts, lengths, nulls)
        if kind == "bytes":
            return found
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            # Only after a text that is not UTF-8: then each message is checked, to find the wrong ones.
            wrong = np.array([not _is_utf8(value) for value in found.to_pylist()])
            self.odd[walked.messages[wrong]] = True
            return pc.if_else(pa.array(wrong), pa.scalar(None, pa.binary()), found).cast(pa.string())


class _Walked(NamedTuple):
    """The messages that have the value of a step, and where each of them ends."""

    messages: Int64s
    ends: Int64s

    def of(self, chosen: Int64s) -> _Walked:
        return _Walked(self.messages[chosen], self.ends[chosen])


def _present(null: Bools | None) -> pa.Buffer | None:
    return None if null is None else validity(null)


def _is_utf8(value: bytes | None) -> bool:
    try:
        str(value or b"", "utf-8")
    except UnicodeDecodeError:
        return False
    return True
