"""The layout of a JSON object: its members in their order, and every byte that is not part of a scalar value.

Producers write the messages of one table and operation with one layout, so that only the values differ. If all bytes
of a layout are found in another message, that message is JSON with the same members, without having been parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import QUOTE

T = TypeVar("T")
MemberPath: TypeAlias = tuple[str, ...]
# The names and the numbers of the members of an object.
ObjectMembers: TypeAlias = tuple[tuple[str, ...], tuple[int, ...]]
Words = npt.NDArray[np.uint64]

# More members are left to the decoder of single records, which knows the limits of tables.
MOST_MEMBERS = 5_000
# The most blanks after a colon; producers write one or none.
MOST_BLANKS = 8
_AFTER_SCALAR = b",} "
_MARK = b'"'
# Messages are compared with this byte in the place of a character that was escaped: it is no byte of UTF-8, so no byte
# of a layout.
ESCAPED = 0xFF


@dataclass(frozen=True, slots=True)
class ScalarGaps:
    """The bytes in front of each scalar value and behind the last one.

    `name_at` has, for each scalar, the offset in its gap of the quotation mark that closes its name. The bytes after
    that mark precede the value.
    """

    texts: tuple[bytes, ...]
    name_at: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MessageLayout:
    """The members of an object and of the objects in it, in the order of the text.

    A member is a scalar, an object with members, or constant: an array or an empty object that is equal in all messages
    of this layout. `marks` is the number of quotation marks outside of scalar values.
    """

    paths: tuple[MemberPath, ...]
    constants: Mapping[MemberPath, Any]
    scalars: Int64s
    gaps: ScalarGaps
    marks: int
    number: Mapping[MemberPath, int]
    scalar_number: Mapping[int, int]  # by the number of the member
    _derived: dict[object, Any] = field(default_factory=dict)

    @property
    def has_others(self) -> bool:
        """Return whether a member is an object or an array."""
        return len(self.scalars) < len(self.paths)

    def derive(self, key: object, make: Callable[[MessageLayout], T]) -> T:
        """Return what a format derives from this layout. It is made once for each key."""
        if key not in self._derived:
            self._derived[key] = make(self)
        derived: T = self._derived[key]
        return derived

    def scalars_or_missing(self, *names: str) -> bool:
        """Return whether each of these members is a scalar or does not exist."""
        return all((name,) not in self.number or self.scalar(name) is not None for name in names)

    def texts_or_missing(self, name: str) -> bool:
        """Return whether a member is an array of texts, equal in all messages, or does not exist."""
        value = self.constants.get((name,))
        are_texts = isinstance(value, list) and all(isinstance(element, str) for element in value)
        return are_texts or (name,) not in self.number

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return the elements of a member that is an array of texts; None if it does not exist."""
        value = self.constants.get((name,))
        return None if value is None else tuple(value)

    def scalar(self, *path: str) -> int | None:
        """Return the number of a scalar member, None if the layout has none of this path."""
        number = self.number.get(path)
        return number if number in self.scalar_number else None

    def row(self, name: str) -> ObjectMembers | None:
        """Return the names and numbers of the members of an object of scalars; None if it is anything else."""
        members = [(path, number) for path, number in self.number.items() if path[0] == name and len(path) > 1]
        if not members or any(len(path) > 2 or number not in self.scalar_number for path, number in members):
            return None
        return tuple(path[1] for path, _ in members), tuple(number for _, number in members)


def layout_of(document: bytes, marked: bytes, name_ends: list[int]) -> MessageLayout | None:
    """Return the layout of a message; None if it needs the general parser.

    `marked` is the message without escapes, and `name_ends` are the ends of the names in it.
    """
    try:
        parsed = msgspec.json.decode(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    members = list(_members(parsed, ()))
    # The numbers of members and of names differ if a name occurs twice, or if an array contains objects.
    scalars = sum(not isinstance(value, dict | list) for _, value in members)
    if not scalars or len(members) > MOST_MEMBERS or len(members) != len(name_ends):
        return None
    return _measured(marked, members, name_ends)


def _members(node: Mapping[str, Any], outer: MemberPath) -> Any:
    for name, value in node.items():
        path = (*outer, name)
        yield path, value
        if isinstance(value, dict):
            yield from _members(value, path)


def _measured(marked: bytes, members: list[tuple[MemberPath, Any]], name_ends: list[int]) -> MessageLayout | None:
    gaps: list[bytes] = []
    name_at: list[int] = []
    constants: dict[MemberPath, Any] = {}
    end, marks = 0, 2 * len(members)
    for number, ((path, value), name_end) in enumerate(zip(members, name_ends, strict=True)):
        name = msgspec.json.encode(path[-1])
        if marked[name_end + 1 - len(name) : name_end + 1] != name:
            return None  # a name with escapes
        start = name_end + 2
        while marked[start : start + 1] == b" ":
            start += 1
        if start > name_end + 2 + MOST_BLANKS:
            return None
        # The bytes of an object or array are part of the gap in front of the next scalar.
        if isinstance(value, dict | list):
            if not value or isinstance(value, list):
                stop = name_ends[number + 1] if number + 1 < len(members) else len(marked)
                constants[path] = value
                inner = _constant_marks(marked, start, stop, named=number + 1 < len(members))
                if inner is None:
                    return None
                marks += inner
        else:
            gaps.append(marked[end:start])
            name_at.append(name_end - end)
            end = _scalar_end(marked, start)
    return _layout(members, constants, ScalarGaps((*gaps, marked[end:]), tuple(name_at)), marks)


def _constant_marks(marked: bytes, start: int, stop: int, *, named: bool) -> int | None:
    """Return the number of quotation marks of an array up to the end of the next name, less those of that name."""
    if ESCAPED in marked[start:stop]:
        return None
    # The closing mark of the next name is at `stop`, its opening mark before it.
    return marked.count(_MARK, start, stop) - (1 if named else 0)


def _scalar_end(marked: bytes, start: int) -> int:
    end = start
    if marked[start] != QUOTE:
        while marked[end] not in _AFTER_SCALAR:
            end += 1
        return end
    return marked.index(_MARK, end + 1) + 1


def _layout(
    members: list[tuple[MemberPath, Any]], constants: dict[MemberPath, Any], gaps: ScalarGaps, marks: int
) -> MessageLayout:
    paths = tuple(path for path, _ in members)
    scalars = np.array([number for number, (_, value) in enumerate(members) if not isinstance(value, dict | list)])
    return MessageLayout(
        paths,
        constants,
        scalars.astype(np.int64),
        gaps,
        marks,
        {path: number for number, path in enumerate(paths)},
        {int(member): number for number, member in enumerate(scalars)},
    )
