"""The rules for a source column whose type differs from the table's: one table of verdicts.

It is printed in the docs and run as tests; nothing else decides about type changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.cast_rules import TIMES
from penstock.table.values.types import STRING, ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType


class Verdict(StrEnum):
    """The effect of a source column's type change on the table's column."""

    SAME = "same"  # nothing to do
    WIDEN = "widen"  # the table's column gets the new type
    KEEP = "keep"  # the table's type is wider and stays
    REFUSE = "refuse"  # no type can store both


@dataclass(frozen=True, slots=True)
class Change:
    """A verdict, and the type the table's column has afterwards."""

    verdict: Verdict
    type: DataType  # the table's type afterwards


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATS = ("FLOAT", "DOUBLE")
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_MOST_DIGITS = 38
# Decimal digits of the greatest number.
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


def change_of(old: DataType, new: DataType, mapping: TypeMapping) -> Change:
    """Return the verdict on a change from type `old` to type `new`.

    `old` is the table's type, `new` the type the source declares now. The table's nullability is kept.
    """
    new = _as_nullable_as(new, old)
    if old == new:
        return Change(Verdict.SAME, old)
    match old, new:
        case AtomicType(), AtomicType():
            return _atomic(old, new, mapping)
        case ArrayType(), ArrayType():
            inner = change_of(old.element, new.element, mapping)
            return Change(inner.verdict, replace(old, element=inner.type))
        case MultisetType(), MultisetType():
            inner = change_of(old.element, new.element, mapping)
            return Change(inner.verdict, replace(old, element=inner.type))
        case MapType(), MapType() if _bare(old.key) == _bare(new.key):
            inner = change_of(old.value, new.value, mapping)
            return Change(inner.verdict, replace(old, value=inner.type))
        case RowType(), RowType():
            return _row(old, new, mapping)
    return _to_text(old, new, mapping)


def _atomic(old: AtomicType, new: AtomicType, mapping: TypeMapping) -> Change:
    if any(old.root in family and new.root in family for family in (_TEXTS, _BYTES)):
        return _by_width(old, new, old.length, new.length)
    if old.root in _INTEGERS and new.root in _INTEGERS:
        return _by_width(old, new, _INTEGERS.index(old.root), _INTEGERS.index(new.root))
    if old.root in _FLOATS and new.root in _FLOATS:
        return _by_width(old, new, _FLOATS.index(old.root), _FLOATS.index(new.root))
    if old.root == new.root == "DECIMAL":
        return _decimals(old, new, mapping)
    # stores milliseconds in any case, and older readers do not support a change of TIME
    if old.root == new.root == "TIME":
        return Change(Verdict.KEEP, old)
    if old.root == new.root and old.root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return _by_width(old, new, old.precision, new.precision)
    if mapping.allow_lossless and (wider := _lossless(old, new)) is not None:
        return Change(Verdict.WIDEN if wider != old else Verdict.KEEP, wider)
    return _to_text(old, new, mapping)


def _by_width(old: AtomicType, new: AtomicType, old_width: int, wanted: int) -> Change:
    # At equal widths the types still differ, such as CHAR(5) and VARCHAR(5), and the newer one counts.
    return Change(Verdict.WIDEN, new) if wanted >= old_width else Change(Verdict.KEEP, old)


def _decimals(old: AtomicType, new: AtomicType, mapping: TypeMapping) -> Change:
    """Return a decimal that stores the values of both.

    It has the larger number of integer digits and the larger scale of both.
    """
    if mapping.decimal_no_change:
        return Change(Verdict.KEEP, old)
    scale = max(old.scale, new.scale)
    precision = max(old.precision - old.scale, new.precision - new.scale) + scale
    if precision > _MOST_DIGITS:
        return Change(Verdict.REFUSE, old)
    # The source's new type alone would not do: DECIMAL(8,4) has fewer integer digits than DECIMAL(10,2).
    wider = replace(old, precision=precision, scale=scale)
    return Change(Verdict.KEEP if wider == old else Verdict.WIDEN, wider)


def _lossless(old: AtomicType, new: AtomicType) -> AtomicType | None:
    roots = {old.root, new.root}
    if roots <= {*_INTEGERS, "DECIMAL"}:
        return _covering_decimal(old, new)
    if roots == {"DATE", "TIMESTAMP"}:
        return old if old.root == "TIMESTAMP" else new
    # Not BIGINT: a double has 53 bits for the digits.
    if "DOUBLE" in roots and roots <= {"DOUBLE", "TINYINT", "SMALLINT", "INT"}:
        return replace(old, root="DOUBLE")
    return None


def _covering_decimal(old: AtomicType, new: AtomicType) -> AtomicType | None:
    scale = max(old.scale, new.scale)
    whole = max(_DIGITS.get(type_.root, type_.precision - type_.scale) for type_ in (old, new))
    if whole + scale > _MOST_DIGITS:
        return None
    return AtomicType("DECIMAL", old.nullable, precision=whole + scale, scale=scale)


def _to_text(old: DataType, new: DataType, mapping: TypeMapping) -> Change:
    was_text = isinstance(old, AtomicType) and old.root in _TEXTS
    is_text = isinstance(new, AtomicType) and new.root in _TEXTS
    if not mapping.allow_non_string_to_string or is_text == was_text:
        return Change(Verdict.REFUSE, old)
    # Messages sent before the change may arrive after it, for example from another partition.
    if was_text:
        return Change(Verdict.KEEP, old)
    if isinstance(old, AtomicType) and old.root in TIMES:
        return Change(Verdict.WIDEN, replace(STRING, nullable=old.nullable))
    return Change(Verdict.WIDEN, new)


def _row(old: RowType, new: RowType, mapping: TypeMapping) -> Change:
    """Compare rows member by member, by name; a member that is added or removed must be nullable."""
    by_name = {member.name: member for member in new.fields}
    members: list[Field] = []
    verdict = Verdict.SAME
    for member in old.fields:
        other = by_name.pop(member.name, None)
        if other is None and not member.type.nullable:
            return Change(Verdict.REFUSE, old)
        inner = Change(Verdict.SAME, member.type) if other is None else change_of(member.type, other.type, mapping)
        if inner.verdict is Verdict.REFUSE:
            return Change(Verdict.REFUSE, old)
        verdict = Verdict.WIDEN if inner.verdict is Verdict.WIDEN else verdict
        members.append(replace(member, type=inner.type))
    if any(not member.type.nullable for member in by_name.values()):
        return Change(Verdict.REFUSE, old)
    if by_name:
        verdict = Verdict.WIDEN
    return Change(verdict, replace(old, fields=(*members, *by_name.values())))


def _as_nullable_as(type_: DataType, other: DataType) -> DataType:
    return replace(type_, nullable=other.nullable)


def _bare(type_: DataType) -> DataType:
    return replace(type_, nullable=True)
