"""Values of Debezium's types that are ISO texts: dates and times, with a time zone and without one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.faults import Faults
from penstock.formats.row_builder import each

_UTC, _MICROS = pa.timestamp("us", "UTC"), len("2024-02-29 12:34:56.789012")
_FINER = re.compile(r"([.,]\d{6})(\d+)")


def zoned_timestamps(values: Sequence[Any], faults: Faults, problem: str) -> pa.Array:
    """Return ISO timestamps with time zone as instants, value by value if Arrow cannot parse them.

    If any has digits beyond microseconds, all are texts in UTC: timestamps in nanoseconds would end in 2262, and the
    column of the table decides whether these digits are kept, counted or refused.
    """
    try:
        return pa.array(values, pa.string()).cast(_UTC)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        instants = each(_instant_text, pa.string(), problem)(values, faults)
    longest = pc.max(pc.binary_length(instants)).as_py() or 0
    return instants if longest > _MICROS else instants.cast(pa.timestamp("us")).view(_UTC)


def _instant_text(value: str) -> str:
    """Return a timestamp with time zone in UTC, with six digits of a second, and more only if they are not zeros."""
    finer = _FINER.search(value)
    moment = datetime.fromisoformat(_FINER.sub(r"\1", value))
    if moment.tzinfo is None:
        raise ValueError("no zone")
    digits = finer[2].rstrip("0") if finer else ""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"{text}{digits and digits.ljust(3, '0')}"


def iso_texts(values: Sequence[Any], faults: Faults, problem: str) -> pa.Array:
    """Remove the Z that Debezium appends to dates and times that have no time zone."""
    return each(lambda value: value.removesuffix("Z"), pa.string(), problem)(values, faults)
