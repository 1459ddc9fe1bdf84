"""Options as text, read as what they mean. Each room names the keys it reads; no one knows them all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from penstock.errors import ConfigError

T = TypeVar("T")
D = TypeVar("D")

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
# A smaller number lets compaction, the choice of buckets or commits fail, or never happen.
LEAST = {
    "commit.max-retries": 0,
    "full-compaction.delta-commits": 1,
    "num-levels": 2,
    "num-sorted-run.compaction-trigger": 1,
    "postpone.default-bucket-num": 1,
}


def parse_size(text: str) -> int:
    """Bytes: `128 mb`, `2g`, `500`."""
    match = _SIZE.fullmatch(text.strip().lower())
    for factor, names in _SIZE_UNITS.items():
        if match and match[2] in names:
            return int(match[1]) * factor
    raise ConfigError(f"{text!r} is not a size", hint="write it as 128 mb")


def parse_duration(text: str) -> int:
    """Milliseconds: `1 h`, `60min`, `10 s`, `500 ms`, `7d`."""
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


def choose(text: str, choices: Sequence[str]) -> str:
    """The choice that `text` names, case and hyphens aside."""
    wanted = text.strip().lower().replace("_", "-")
    if wanted in choices:
        return wanted
    near = difflib.get_close_matches(wanted, choices, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"{text!r} is not a choice", hint=f"{meant}choices are {', '.join(choices)}")


@dataclass(frozen=True, slots=True)
class Options:
    """A view of a table's options; a value that cannot be read raises ConfigError naming the option."""

    values: Mapping[str, str]

    @overload
    def text(self, key: str, default: str) -> str: ...
    @overload
    def text(self, key: str, default: None) -> str | None: ...
    def text(self, key: str, default: str | None) -> str | None:
        return self.values.get(key, default)

    @overload
    def integer(self, key: str, default: int) -> int: ...
    @overload
    def integer(self, key: str, default: None) -> int | None: ...
    def integer(self, key: str, default: int | None) -> int | None:
        """ConfigError also when it is smaller than the option may be."""
        number = self._parsed(key, parse_integer, default)
        if number is not None and number < LEAST.get(key, number):
            raise ConfigError(f"{key} = {number} is too small", option=key, hint=f"set it to {LEAST[key]} or more")
        return number

    @overload
    def size(self, key: str, default: int) -> int: ...
    @overload
    def size(self, key: str, default: None) -> int | None: ...
    def size(self, key: str, default: int | None) -> int | None:
        """In bytes."""
        return self._parsed(key, parse_size, default)

    @overload
    def duration(self, key: str, default: int) -> int: ...
    @overload
    def duration(self, key: str, default: None) -> int | None: ...
    def duration(self, key: str, default: int | None) -> int | None:
        """In milliseconds."""
        return self._parsed(key, parse_duration, default)

    def boolean(self, key: str, default: bool) -> bool:
        return self._parsed(key, parse_boolean, default)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        return self._parsed(key, lambda text: choose(text, choices), default)

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names parted by commas; empty when the option is not set."""
        return tuple(name.strip() for name in self.values.get(key, "").split(",") if name.strip())

    def _parsed(self, key: str, parse: Callable[[str], T], default: D) -> T | D:
        value = self.values.get(key)
        if value is None:
            return default
        try:
            return parse(value)
        except ConfigError as reason:
            raise ConfigError(reason.message, hint=reason.hint, option=key) from reason
