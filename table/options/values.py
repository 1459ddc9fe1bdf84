"""Parsing of option values: sizes, durations, numbers, booleans and choices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.errors import ConfigError, nearest

_SIZE = re.compile(r"(\d+)\s*([a-z]*)")
_SIZE_UNITS = {
    1: ("", "b", "bytes"),
    1 << 10: ("k", "kb", "kib", "kibibytes"),
    1 << 20: ("m", "mb", "mib", "mebibytes"),
    1 << 30: ("g", "gb", "gib", "gibibytes"),
    1 << 40: ("t", "tb", "tib", "tebibytes"),
}
_DURATION = re.compile(r"(\d+)\s*([a-zµ]*)")
_DURATION_UNITS = {
    86_400_000: ("d", "day", "days"),
    3_600_000: ("h", "hour", "hours"),
    60_000: ("min", "m", "minute", "minutes"),
    1000: ("s", "sec", "secs", "second", "seconds"),
    1: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
}


def parse_size(text: str) -> int:
    """Return a size in bytes from a text such as `128 mb`, `2g` or `500`."""
    match = _SIZE.fullmatch(text.strip().lower())
    for factor, names in _SIZE_UNITS.items():
        if match and match[2] in names:
            return int(match[1]) * factor
    raise ConfigError(f"{text!r} is not a size", hint="write it as 128 mb")


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds from a text such as `1 h`, `60min`, `10 s`, `500 ms` or `7d`."""
    match = _DURATION.fullmatch(text.strip().lower())
    for factor, names in _DURATION_UNITS.items():
        if match and match[2] in names:
            return int(match[1]) * factor
    raise ConfigError(f"{text!r} is not a duration", hint="write it as 1 h, 10 min or 500 ms")


def parse_integer(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError as reason:
        raise ConfigError(f"{text!r} is not a whole number") from reason


def parse_boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ConfigError(f"{text!r} is neither true nor false")


def parse_number(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError as reason:
        raise ConfigError(f"{text!r} is not a number") from reason


def choose(text: str, choices: Sequence[str]) -> str:
    """Return the choice that `text` names, ignoring case and treating underscores as hyphens."""
    wanted = _folded(text)
    for choice in choices:
        if _folded(choice) == wanted:
            return choice
    near = nearest(text.strip(), choices) or nearest(wanted, choices)
    meant = f"did you mean {near}? " if near else ""
    raise ConfigError(f"{text!r} is not a choice", hint=f"{meant}choices are {', '.join(choices)}")


def _folded(text: str) -> str:
    return text.strip().lower().replace("_", "-")
