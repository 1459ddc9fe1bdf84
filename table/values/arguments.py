"""Checks of the arguments of public functions. An argument of the wrong type is refused by its name."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import SupportsIndex

from penstock.errors import ConfigError

_LONGS = range(-(1 << 63), 1 << 63)  # what metadata files may contain: Java's type long
_AS_TIME = "write it as 2026-01-31 12:00:00, or as epoch milliseconds"


def whole_number(value: object, argument: str) -> int:
    """Return `value` as an int if it is an integer of 64 bits, of Python or of numpy; raise ConfigError otherwise."""
    number = _integer(value)
    if number is None:
        raise ConfigError(
            f"{argument} is a whole number, not {value!r}", hint="pass a number without quotes, such as 3"
        )
    if number not in _LONGS:
        raise ConfigError(f"{argument} is a number of 64 bits, not {number}", hint="pass a smaller number")
    return number


def optional_whole_number(value: object, argument: str) -> int | None:
    return None if value is None else whole_number(value, argument)


def duration(value: object, argument: str) -> float:
    """Return `value` if it is a number that is not negative; raise ConfigError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LONGS.stop:
        raise ConfigError(f"{argument} is a number from 0 upwards, not {value!r}", hint="pass a number such as 60.0")
    return float(value)


def as_text(value: object, argument: str) -> str:
    """Return `value` if it is a text; raise ConfigError otherwise."""
    if not isinstance(value, str):
        raise ConfigError(f"{argument} is a text, not {value!r}", hint="pass a text in quotes")
    return value


def checked_text(value: object, argument: str) -> str:
    """Return `value` if it is a text that files can contain, and not an empty one; raise ConfigError otherwise."""
    text = as_text(value, argument)
    if not text:
        raise ConfigError(f"{argument} is empty", hint="pass a text of at least one character")
    try:
        text.encode()
    except UnicodeEncodeError as reason:
        raise ConfigError(
            f"{argument} has half of a surrogate pair, which no file can contain",
            given=ascii(text),
            hint="read the text again where it comes from: it was cut inside of a character",
        ) from reason
    return text


def optional_text(value: object, argument: str) -> str | None:
    return None if value is None else checked_text(value, argument)


def text_map(value: Mapping[str, str] | None, argument: str) -> dict[str, str]:
    """Return a copy of `value`, whose keys and values are texts; raise ConfigError otherwise."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{argument} is a mapping of texts to texts, not {value!r}", hint='pass {"name": "value"}')
    for key, text in value.items():
        checked_text(key, f"a key of {argument}")
        if text != "":
            checked_text(text, f"{argument}[{key!r}]")
    return dict(value)


def _integer(value: object) -> int | None:
    # In Python a bool is an int too, but True as a number is a mistake of the caller.
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of numpy has the method too
        return None


def epoch_millis(moment: object, argument: str) -> int:
    """Return a point in time as epoch milliseconds.

    A datetime or its text is interpreted in local time unless it contains a time zone; an integer is returned
    unchanged.
    """
    if isinstance(moment, str):
        moment = _datetime(moment, argument)
    if isinstance(moment, datetime):
        return int(moment.timestamp() * 1000)
    if _integer(moment) is None:
        raise ConfigError(f"{argument} is a datetime, its text or epoch milliseconds, not {moment!r}", hint=_AS_TIME)
    return whole_number(moment, argument)


def _datetime(text: str, argument: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as reason:
        raise ConfigError(
            f"{argument}: {text!r} is not a point in time",
            hint=_AS_TIME,
        ) from reason


def option_texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Return options as the texts that a table stores: `True` becomes `true`, numbers become their digits."""
    for key, value in (options or {}).items():
        if value is None:
            raise ConfigError("an option has no value", option=key, hint="leave the option out, or set a value")
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (options or {}).items()
    }


def mappings(value: object, argument: str) -> list[Mapping[str, object]]:
    """Return the argument as a list of mappings.

    A single mapping is refused, because the caller most likely forgot to put it into a list.
    """
    if isinstance(value, Mapping | str) or not isinstance(value, Iterable):
        raise ConfigError(f"{argument} must be a list", hint=f"write {argument}=[{value!r}]")
    found = list(value)
    for entry in found:
        if not isinstance(entry, Mapping):
            raise ConfigError(
                f"one of the {argument} is not a mapping: {entry!r}", hint="pass a mapping of columns to values"
            )
    return found
