"""The column type changes that ALTER allows. The table was recorded by trying every pair in Java Paimon 1.3.

The module also has the error of a single value that a cast cannot represent.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import DecodeError
from penstock.table.values.types import STRING, AtomicType, DataType, MultisetType, with_nullability


class Sources(NamedTuple):
    """The types that a column may be changed from: always, and only if `disable-explicit-type-casting` is not set."""

    implicit: tuple[str, ...]
    explicit: tuple[str, ...]


_INTS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS = (*_INTS, "FLOAT", "DOUBLE", "DECIMAL")
_CHARS = ("CHAR", "VARCHAR")
_BINARIES = ("BINARY", "VARBINARY")
_STAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")
_CONSTRUCTED = ("ARRAY", "MAP", "ROW")
_PLAIN = ("BOOLEAN", *_NUMBERS, *_BINARIES)

# Changes of only the length, precision or scale are listed under the type itself. TIME and MULTISET allow none.
CASTS: dict[str, Sources] = {
    "BOOLEAN": Sources((), (*_INTS, *_CHARS)),
    "TINYINT": Sources((), ("BOOLEAN", *_NUMBERS, *_CHARS)),
    "SMALLINT": Sources(("TINYINT",), ("BOOLEAN", *_NUMBERS, *_CHARS)),
    "INT": Sources(("TINYINT", "SMALLINT"), ("BOOLEAN", *_NUMBERS, *_CHARS, *_STAMPS)),
    "BIGINT": Sources(("TINYINT", "SMALLINT", "INT"), ("BOOLEAN", *_NUMBERS, *_CHARS, *_STAMPS)),
    "FLOAT": Sources((*_INTS, "DECIMAL"), ("BOOLEAN", *_NUMBERS, *_CHARS)),
    "DOUBLE": Sources(_NUMBERS, ("BOOLEAN", *_CHARS)),
    "DECIMAL": Sources(_NUMBERS, ("BOOLEAN", *_CHARS)),
    "CHAR": Sources(("CHAR",), (*_PLAIN, "VARCHAR", *_CONSTRUCTED)),
    "VARCHAR": Sources(_CHARS, (*_PLAIN, *_CONSTRUCTED)),
    "BINARY": Sources(("BINARY",), ("VARBINARY", *_CHARS)),
    "VARBINARY": Sources(_BINARIES, _CHARS),
    "DATE": Sources(("TIMESTAMP",), ("TIMESTAMP_LTZ", *_CHARS)),
    "TIME": Sources(("TIMESTAMP",), ("TIMESTAMP_LTZ", *_CHARS)),
    "TIMESTAMP": Sources(_STAMPS, ("INT", "BIGINT", "DATE", "TIME", *_CHARS)),
    "TIMESTAMP_LTZ": Sources(_STAMPS, ("INT", "BIGINT", "DATE", "TIME", *_CHARS)),
}
# Times become STRING, never a CHAR or VARCHAR with a length.
TIMES = ("DATE", "TIME", *_STAMPS)


def can_cast(source: DataType, target: DataType, explicit: bool) -> bool:
    """Return whether a column's type may be changed from `source` to `target`. Nullability is ignored.

    Constructed types cannot be changed into one another: a change inside one is checked for its member, which has a
    dotted name.
    """
    source, target = with_nullability(source, nullable=True), with_nullability(target, nullable=True)
    if source == target:
        return True
    if not isinstance(target, AtomicType) or isinstance(source, MultisetType):
        return False
    # ARRAY, MAP and ROW are named by their classes.
    root = source.root if isinstance(source, AtomicType) else type(source).__name__.removesuffix("Type").upper()
    if root in TIMES and target == STRING:
        return explicit
    allowed = CASTS.get(target.root, Sources((), ()))
    return root in allowed.implicit or (explicit and root in allowed.explicit)


def has_same_hashes(source: DataType, target: DataType) -> bool:
    """Return whether all values of `source` have the same hash, and with it the same bucket, as values of `target`."""
    source, target = with_nullability(source, nullable=True), with_nullability(target, nullable=True)
    if source == target:
        return True
    match source, target:
        case (AtomicType("CHAR" | "VARCHAR"), AtomicType("CHAR" | "VARCHAR")):
            return target.length >= source.length
        case (AtomicType("BINARY" | "VARBINARY"), AtomicType("VARBINARY")):
            return target.length >= source.length
        case (AtomicType("DECIMAL"), AtomicType("DECIMAL")):
            return source.scale == target.scale and _is_wider_form(source, target, 18)
        case (AtomicType("TIMESTAMP"), AtomicType("TIMESTAMP")) | (
            AtomicType("TIMESTAMP_LTZ"),
            AtomicType("TIMESTAMP_LTZ"),
        ):
            return _is_wider_form(source, target, 3)
    return False


def _is_wider_form(source: AtomicType, target: AtomicType, compact: int) -> bool:
    """Return whether `target` has all values of `source` in the same form: with up to `compact` digits, one number."""
    return source.precision <= target.precision and (source.precision <= compact) == (target.precision <= compact)


class CastFailed(DecodeError):
    """A stored value that cannot be represented in the requested type, such as `abc` as INT."""
