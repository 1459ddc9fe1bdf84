"""Finds the values that a cast of Arrow has changed, because the type of the result cannot represent them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.cast_numbers import floats_of_decimals


def changed_values(original: pa.Array, cast: pa.Array) -> pa.Array | None:
    """Return which values differ from their values before the cast; None if a cast between the types changes none.

    Arrow raises an error itself when an integer, or a decimal of fewer digits, cannot hold a value.
    """
    if pa.types.is_timestamp(original.type):
        original, cast = _without_zone(original), _without_zone(cast)
        may_change = pa.types.is_date(cast.type) or pa.types.is_timestamp(cast.type)
    else:
        # Bytes are cast to BOOLEAN by their text, and Arrow accepts only texts of booleans: no value is changed.
        may_change = (pa.types.is_boolean(cast.type) and not pa.types.is_binary(original.type)) or (
            pa.types.is_floating(original.type)
            and original.type != cast.type
            and (pa.types.is_floating(cast.type) or pa.types.is_decimal(cast.type))
        )
    if not may_change or original.type == cast.type:
        return None
    back = (
        floats_of_decimals(cast, original.type)
        if pa.types.is_decimal(cast.type)
        else pc.cast(cast, original.type, safe=False)
    )
    changed = pc.not_equal(back, original)
    # NaN differs from itself.
    return pc.and_(changed, pc.invert(pc.is_nan(original))) if pa.types.is_floating(cast.type) else changed


def _without_zone(column: pa.Array) -> pa.Array:
    return column.view(pa.timestamp(column.type.unit)) if pa.types.is_timestamp(column.type) else column
