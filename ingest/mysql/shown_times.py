"""TIMESTAMP values as the time that clocks of a zone show, which is what tables contain.

Clocks that are put back show an hour twice, so two instants have one local time. In a column of a key, rows with
different keys would become one row. There the later of the two times is a text with its offset from UTC, which no
column of times accepts: its row is a bad record. A column of texts keeps both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch
from penstock.local_times import instants, wall_clock

_INSTANT = pa.timestamp("us", "UTC")
_MICROS_PER_MINUTE = 60_000_000


def in_zone(batch: ChangeBatch, zone: str) -> ChangeBatch:
    """Return the batch with TIMESTAMP columns converted from instants to local time of the zone.

    This includes TIMESTAMP columns that are text.
    """
    original, fields, keys = batch.rows.columns, batch.schema.fields, batch.schema.primary_keys
    columns = [
        _in_zone(column, declared.type or "", zone, in_key=declared.name in keys)
        for declared, column in zip(fields, original, strict=True)
    ]
    # `_in_zone` returns the same array if there is nothing to convert.
    if all(mine is theirs for mine, theirs in zip(columns, original, strict=True)):
        return batch
    return replace(batch, rows=pa.RecordBatch.from_arrays(columns, names=batch.rows.schema.names))


def repeats_times(zone: str, years: Collection[int]) -> bool:
    """Return whether clocks of the zone are changed in these years, so that they show some times twice."""
    firsts = pa.array(np.array([f"{year}-{month:02}" for year in years for month in range(1, 13)], "M8[s]"))
    shifts = pc.subtract(wall_clock(firsts.view(pa.timestamp("s", "UTC")), zone), firsts)
    return len(shifts.unique()) > 1


def _in_zone(column: pa.Array, declared: str, zone: str, *, in_key: bool) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.tz:
        utc = column.view(_INSTANT)
        local = wall_clock(utc, zone)
        second = _second(utc, local, zone) if in_key else None
        return local if second is None else _with_offsets(local.cast(pa.string()), utc, local, second)
    if pa.types.is_string(column.type) and declared.startswith("timestamp") and zone != "UTC":
        return _local_texts(column, zone, in_key=in_key)
    return column


def _local_texts(column: pa.Array, zone: str, *, in_key: bool) -> pa.Array:
    """Convert TIMESTAMP texts to local time. All have the same length; the zero date is not an instant and stays."""
    real = pc.invert(pc.starts_with(column, "0000"))
    utc = pc.if_else(real, column, pa.scalar(None, pa.string())).cast(pa.timestamp("us")).view(_INSTANT)
    local = wall_clock(utc, zone)
    # The cast prints six digits of fraction. Cut to the length of the original texts, they have their precision again.
    length = pc.max(pc.binary_length(column)).as_py() or 0
    texts = pc.utf8_slice_codeunits(local.cast(pa.string()), 0, length)
    if in_key and (second := _second(utc, local, zone)) is not None:
        texts = _with_offsets(texts, utc, local, second)
    return pc.if_else(real, texts, column)


def _second(utc: pa.Array, local: pa.Array, zone: str) -> pa.Array | None:
    """Return which local times were shown before, at an earlier instant; None if none was."""
    second = pc.fill_null(pc.not_equal(instants(local, zone), utc), fill_value=False)
    return second if pc.any(second).as_py() else None


def _with_offsets(texts: pa.Array, utc: pa.Array, local: pa.Array, chosen: pa.Array) -> pa.Array:
    shifts = pc.subtract(local, utc.view(local.type)).filter(chosen).cast(pa.int64()).to_numpy()
    offsets = pa.array([_offset_text(int(shift) // _MICROS_PER_MINUTE) for shift in shifts], pa.string())
    return pc.replace_with_mask(texts, chosen, pc.binary_join_element_wise(texts.filter(chosen), offsets, ""))


def _offset_text(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"
