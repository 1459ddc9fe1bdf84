"""Texts that contain more than the value they become, such as more digits: two keys would become one."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from penstock.schema_evolution.text_values import CLOCK, DAY_MILLIS, MOST_DAYS, STAMP
from penstock.table.values.types import AtomicType

_KEEPING_OPTIONS = {"TIME": "time-to-string", "BOOLEAN": "tinyint1-not-bool"}


def not_exact(target: AtomicType) -> str:
    """Return why a value that the target can hold only in part is refused in a column of a key."""
    option = _KEEPING_OPTIONS.get(target.root)
    way = f"--type-mapping {option} keeps such values" if option else "a table with a wider type keeps such values"
    return f"cannot be stored exactly, and rows with different keys would become one ({way})"


def is_exact(text: str, value: object, target: AtomicType) -> bool:
    """Return whether a value that was parsed from a text has lost nothing of it."""
    match target.root:
        case "DECIMAL":
            return Decimal(text.strip()) == value
        case "FLOAT" | "DOUBLE":
            return _is_exact_number(text, float(str(value)), target)
        case "DATE":
            return _is_whole_day(text)
        case "TIME":
            clock = CLOCK.fullmatch(text)
            return clock is None or not _has_more_digits(clock[5], 3)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            stamp = STAMP.fullmatch(text)
            return stamp is None or not _has_more_digits(stamp[7], target.precision)
    return True


def _is_exact_number(text: str, value: float, target: AtomicType) -> bool:
    if not math.isfinite(value):
        return True
    stored = np.float32(value) if target.root == "FLOAT" else np.float64(value)
    # Producers print a FLOAT with all digits of its value as a double, or with the fewest digits that identify it.
    return Decimal(text.strip()) in (Decimal(float(stored)), Decimal(str(stored)))


def _is_whole_day(text: str) -> bool:
    stamp = STAMP.fullmatch(text)
    if stamp is None:
        number = int(text)
        return abs(number) <= MOST_DAYS or number % DAY_MILLIS == 0
    return not any(int(part or 0) for part in stamp.group(4, 5, 6, 7))


def _has_more_digits(fraction: str | None, digits: int) -> bool:
    return bool((fraction or "")[digits:].strip("0"))
