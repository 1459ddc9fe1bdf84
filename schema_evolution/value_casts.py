"""Casts of decoded columns to the types of the table's columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import late_pandas
from penstock.formats.exact_decimals import apart, rescaled
from penstock.schema_evolution.changed_values import changed_values
from penstock.schema_evolution.exact_texts import not_exact
from penstock.schema_evolution.list_casts import fit_lists
from penstock.schema_evolution.text_casts import Misfits, cast_texts
from penstock.schema_evolution.text_values import KEEPS_TIMES
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_texts import as_text, parsed_json
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.nested_numbers import with_exact_numbers
from penstock.table.values.types import STRING_LENGTH, ArrayType, AtomicType, DataType, Field, type_json, type_text


def fit_column(
    column: pa.Array, target: Field, mapping: TypeMapping, misfits: Misfits, *, in_key: bool = False
) -> pa.Array:
    """Return `column` in the Arrow type of `target`.

    Rows whose value does not fit are null there and recorded in `misfits`. With `in_key`, values that a rule would
    replace by others, and those that the type cannot hold exactly, do not fit: distinct keys could become equal.
    """
    type_ = target.type
    arrow = to_arrow(type_)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow)
    if column.type == arrow:
        return _measured(column, type_, target.name, misfits)
    if pa.types.is_string(column.type):
        if isinstance(type_, AtomicType):
            return cast_texts(column, type_, target.name, mapping, misfits, in_key=in_key)
        return parsed_json(column, type_, target.name, misfits)
    if pa.types.is_list(column.type) and isinstance(type_, ArrayType):
        return fit_lists(
            column,
            type_,
            target.name,
            misfits,
            lambda elements, field, found: fit_column(elements, field, mapping, found),
        )
    if pa.types.is_duration(column.type):
        return _durations(column, type_, target.name, mapping, misfits, in_key=in_key)
    return _native(column, type_, target.name, mapping, misfits, in_key=in_key)


def _measured(column: pa.Array, type_: DataType, name: str, misfits: Misfits) -> pa.Array:
    """Return the column with texts and bytes that are too long for it as misfits; other types need no check."""
    if not isinstance(type_, AtomicType) or type_.root not in _MEASURES or type_.length == STRING_LENGTH:
        return column
    # A text has at most as many characters as bytes, which are counted by their offsets alone.
    if (pc.max(pc.binary_length(column)).as_py() or 0) <= type_.length:
        return column
    lengths = _MEASURES[type_.root](column)
    if (pc.max(lengths).as_py() or 0) <= type_.length:
        return column
    long = pc.fill_null(pc.greater(lengths, type_.length), fill_value=False)
    for row in np.flatnonzero(long.to_numpy(zero_copy_only=False)).tolist():
        shown = str(column[row].as_py())[:80]
        misfits.add(np.array([row]), f"{name} {type_json(type_)}: {shown!r} is {lengths[row]} characters or bytes long")
    return pc.if_else(long, pa.scalar(None, column.type), column)


_MEASURES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "CHAR": pc.utf8_length,
    "VARCHAR": pc.utf8_length,
    "BINARY": pc.binary_length,
    "VARBINARY": pc.binary_length,
}


def _native(
    column: pa.Array, type_: DataType, name: str, mapping: TypeMapping, misfits: Misfits, *, in_key: bool = False
) -> pa.Array:
    arrow = to_arrow(type_)
    if pa.types.is_timestamp(column.type):
        if pa.types.is_timestamp(arrow):
            exact = _exact_stamps(column, arrow)
            if exact is not None:
                return exact
            cast = _stamps(column, arrow)
            return _without_changed(cast, changed_values(column, cast), column, type_, name, misfits, in_key=in_key)
        # Without zone, so that its text has none either.
        column = column.view(pa.timestamp(column.type.unit))
        if pa.types.is_time(arrow):
            # Arrow refuses the whole column for one time with microseconds.
            given, column = column, pc.floor_temporal(column, 1, unit="millisecond")
            changed = pc.not_equal(column, given)
            return _without_changed(pc.cast(column, arrow), changed, given, type_, name, misfits, in_key=in_key)
    try:
        cast = _cast(column, arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Arrow has no such cast, or refuses the column for one value: continue with the text that a text message would
        # contain.
        if (parts := apart(column, arrow)) is not None:
            return pc.coalesce(*(_native(part, type_, name, mapping, misfits, in_key=in_key) for part in parts))
        texts = as_text(column)
        if pa.types.is_decimal(column.type) and pa.types.is_integer(arrow):
            texts = pc.replace_substring_regex(texts, r"\.0+$", "")  # 2.00 fits an integer
    else:
        cast = _measured(cast, type_, name, misfits)
        return _without_changed(cast, changed_values(column, cast), column, type_, name, misfits, in_key=in_key)
    if pa.types.is_binary(column.type) and pa.types.is_string(arrow):
        replaced = pc.not_equal(pc.cast(texts, pa.binary()), column)
        texts = _without_changed(texts, replaced, column, type_, name, misfits, in_key=in_key)
    if isinstance(type_, AtomicType):
        return cast_texts(texts, type_, name, mapping, misfits, in_key=in_key)
    return parsed_json(texts, type_, name, misfits)


def _cast(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_decimal128(column.type) and pa.types.is_decimal128(arrow):
        return rescaled(column, arrow)
    return pc.cast(with_exact_numbers(column, arrow), arrow)


def _durations(
    column: pa.Array, type_: DataType, name: str, mapping: TypeMapping, misfits: Misfits, *, in_key: bool
) -> pa.Array:
    """Convert durations. A TIME may be negative or longer than a day in the source, but not in Paimon."""
    unit = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    if isinstance(type_, AtomicType) and type_.root in {"CHAR", "VARCHAR"}:
        return cast_texts(_clock_texts(column, unit), type_, name, mapping, misfits)
    # In doubles, because Arrow divides integers towards zero. They are exact: the longest TIME has less than 2^53
    # nanoseconds.
    millis = pc.floor(pc.divide(pc.cast(column.view(pa.int64()), pa.float64()), unit / 1000))
    millis = pc.cast(millis, pa.int64())
    cut = pc.not_equal(pc.multiply(millis, unit // 1000), column.view(pa.int64())) if unit > 1000 else None
    millis = _without_changed(millis, cut, column, type_, name, misfits, in_key=in_key)
    if not (isinstance(type_, AtomicType) and type_.root == "TIME"):
        return _native(millis, type_, name, mapping, misfits, in_key=in_key)
    inside = pc.and_(pc.greater_equal(millis, 0), pc.less(millis, 86_400_000))
    outside = pc.fill_null(pc.invert(inside), fill_value=False)
    refused = mapping.zero_date_error or in_key
    if refused:
        for row in np.flatnonzero(outside.to_numpy(zero_copy_only=False)).tolist():
            why = f"{millis[row]} ms is not within one day{f' {KEEPS_TIMES}' * in_key}"
            misfits.add(np.array([row]), f"{name} {type_json(type_)}: {why}")
    else:
        misfits.nulled += pc.sum(outside).as_py() or 0
    midnight = None if type_.nullable or refused else 0
    within = pc.if_else(outside, pa.scalar(midnight, pa.int64()), millis)
    return pc.cast(within, pa.int32()).view(pa.time32("ms"))


def _clock_texts(column: pa.Array, per_second: int) -> pa.Array:
    """Return texts of the form `[-]HH:mm:ss[.f]`, with a fraction of three, six or nine digits."""
    encoded = column.view(pa.int64()).dictionary_encode()
    texts = [_clock_text(value, per_second) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _clock_text(value: int, per_second: int) -> str:
    seconds, rest = divmod(abs(value), per_second)
    text = f"{'-' if value < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not rest:
        return text
    digits = f"{rest * (1_000_000_000 // per_second):09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def _exact_stamps(column: pa.Array, arrow: pa.TimestampType) -> pa.Array | None:
    """Return the times in the unit and zone of `arrow`, None if a value has digits beyond the unit."""
    try:
        return pc.cast(column.view(pa.timestamp(column.type.unit)), pa.timestamp(arrow.unit)).view(arrow)
    except pa.ArrowInvalid:
        return None


def _stamps(column: pa.Array, arrow: pa.TimestampType) -> pa.Array:
    """Convert to the unit and zone of `arrow`: both sides are in UTC, digits beyond the unit are cut off."""
    plain = column.view(pa.timestamp(column.type.unit))
    coarser = _UNIT_PLACES[arrow.unit] < _UNIT_PLACES[column.type.unit]
    # Arrow refuses a cast that loses digits. Floor rounds times before 1970 in the same direction as later ones.
    if coarser:
        plain = pc.floor_temporal(plain, 1, unit=_FLOORS[arrow.unit])
    return pc.cast(plain, pa.timestamp(arrow.unit)).view(arrow)


def _without_changed(
    cast: pa.Array,
    changed: pa.Array | None,
    original: pa.Array,
    type_: DataType,
    name: str,
    misfits: Misfits,
    *,
    in_key: bool,
) -> pa.Array:
    """Return the cast values. Those that the cast has changed are counted; in a key they are misfits, and null."""
    count = 0 if changed is None else pc.sum(changed).as_py() or 0
    if not count or not isinstance(type_, AtomicType):
        return cast
    if not in_key:
        misfits.inexact += count
        return cast
    late_pandas.needed_for(original.type)
    for row in np.flatnonzero(pc.fill_null(changed, fill_value=False).to_numpy(zero_copy_only=False)).tolist():
        shown = str(original[row].as_py())[:80]
        misfits.add(np.array([row]), f"{name} {type_text(type_)}: {shown!r} {not_exact(type_)}")
    return pc.if_else(changed, pa.scalar(None, cast.type), cast)


_UNIT_PLACES = {"s": 0, "ms": 1, "us": 2, "ns": 3}
_FLOORS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
