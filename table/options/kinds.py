"""The value types of table options: how the text of a value is parsed, and which values are valid."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar

from penstock.errors import ConfigError, nearest

_SIZE = re.compile(r"(\d+)\s*([a-z]*)")
# As in Java, all units are powers of 1024, and a number without a unit is in bytes.
_SIZE_UNITS = {
    1: ("", "b", "bytes"),
    1 << 10: ("k", "kb", "kib", "kibibytes"),
    1 << 20: ("m", "mb", "mib", "mebibytes"),
    1 << 30: ("g", "gb", "gib", "gibibytes"),
    1 << 40: ("t", "tb", "tib", "tebibytes"),
}
_DURATION = re.compile(r"(\d+)\s*([a-zµ]*)")
# In milliseconds. As in Java, a number without a unit is in milliseconds.
_DURATION_UNITS = {
    86_400_000: ("d", "day", "days"),
    3_600_000: ("h", "hour", "hours"),
    60_000: ("min", "m", "minute", "minutes"),
    1000: ("s", "sec", "secs", "second", "seconds"),
    1: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
}
LONGEST_PREFIX = 190  # of the 255 bytes that file systems allow for a name


def _within_long(number: int, text: str) -> int:
    """Return the number if Java's type long has it: other readers of the table could not read its options."""
    if -(1 << 63) <= number < 1 << 63:
        return number
    raise ConfigError(f"{text[:80]!r} is not a number of 64 bits", hint="write a smaller number")


def parse_size(text: str) -> int:
    """Return a size in bytes from a text such as `128 mb`, `2g` or `500`."""
    match = _SIZE.fullmatch(text.strip().lower())
    for factor, names in _SIZE_UNITS.items():
        if match and match[2] in names:
            return _within_long(_integer(match[1]) * factor, text)
    raise ConfigError(f"{text!r} is not a size", hint="write it as 128 mb")


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds from a text such as `1 h`, `60min`, `10 s`, `500 ms` or `7d`."""
    match = _DURATION.fullmatch(text.strip().lower())
    for factor, names in _DURATION_UNITS.items():
        if match and match[2] in names:
            return _within_long(_integer(match[1]) * factor, text)
    raise ConfigError(f"{text!r} is not a duration", hint="write it as 1 h, 10 min or 500 ms")


def parse_integer(text: str) -> int:
    """Return a whole number from its text."""
    return _within_long(_integer(text), text)


def _integer(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError as reason:
        raise ConfigError(f"{text[:80]!r} is not a whole number", hint="write digits only, such as 100") from reason


def parse_boolean(text: str) -> bool:
    """Return true or false from its text."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ConfigError(f"{text!r} is neither true nor false", hint="write true or false")


def parse_number(text: str) -> float:
    """Return a number, which may have a fraction, from its text."""
    try:
        return float(text.strip())
    except ValueError as reason:
        raise ConfigError(f"{text!r} is not a number", hint="write it as 0.5") from reason


def _file_prefix(text: str) -> str:
    if len(text.encode()) > LONGEST_PREFIX:
        raise ConfigError("the prefix is too long", bytes=len(text.encode()), hint=f"{LONGEST_PREFIX} bytes at most")
    return text


def choose(text: str, choices: Sequence[str]) -> str:
    """Return the choice that `text` names, ignoring case and treating underscores as hyphens."""
    wanted = _folded(text)
    for choice in choices:
        if _folded(choice) == wanted:
            return choice
    # First the unchanged text, because some choices are in upper case.
    near = nearest(text.strip(), choices) or nearest(wanted, choices)
    meant = f"did you mean {near}? " if near else ""
    raise ConfigError(f"{text!r} is not a choice", hint=f"{meant}choices are {', '.join(choices)}")


def _folded(text: str) -> str:
    # Java's enumerations have underscores in their names, the documented values mostly have hyphens. Tables contain
    # both.
    return text.strip().lower().replace("_", "-")


T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A value type: its name in the documentation, its parser, and the valid range of the value."""

    name: str
    read: Callable[[str], T_co]
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()

    def within(self, least: float | None = None, most: float | None = None) -> Kind[T_co]:
        """Return the same value type with a range."""
        return replace(self, least=least, most=most)

    def parse(self, text: str) -> T_co:
        """Return the value of the text. Raise ConfigError for an invalid text or a number out of range."""
        value = self.read(text)
        # A bool is an int too, but has no range.
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.check(value)
        return value

    def check(self, number: float) -> None:
        """Raise ConfigError for a number out of range."""
        if self.least is not None and number < self.least:
            raise ConfigError(f"{number} is too small", hint=f"set it to {self.least:g} or more")
        if self.most is not None and number > self.most:
            raise ConfigError(f"{number} is too large", hint=f"set it to {self.most:g} or less")

    @property
    def range(self) -> str:
        """Return the range as a text such as "at least 1"; an empty text if there is no limit."""
        ends = [f"at least {self.least:g}" if self.least is not None else ""]
        ends.append(f"at most {self.most:g}" if self.most is not None else "")
        return " and ".join(filter(None, ends))


def one_of(*choices: str) -> Kind[str]:
    """Return the value type of a single choice."""
    return Kind("choice", partial(choose, choices=choices), choices=choices)


def member_of(enum: type[E]) -> Kind[E]:
    """Return the value type of a single choice, whose values are the members of an enumeration."""
    choices = tuple(enum)
    # choose() returns the documented spelling, which is the value of the member.
    return Kind("choice", lambda text: enum(choose(text, choices)), choices=choices)


def some_of(*choices: str) -> Kind[tuple[str, ...]]:
    """Return the value type of a comma-separated list of choices."""
    return Kind("choices", partial(_choose_some, choices=choices), choices=choices)


def _choose_some(text: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(choose(name, choices) for name in _names(text))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _by_level(text: str) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for pair in _names(text):
        level, colon, value = pair.partition(":")
        if not colon or not level.strip().isdecimal() or not value.strip():
            raise ConfigError(f"{pair!r} is not a level with its value", hint="write it as 0:avro,5:parquet")
        found.setdefault(int(level), value.strip())
    return found


def _statistics(text: str) -> str:
    if re.fullmatch(r"none|counts|full|truncate\(\s*[1-9]\d*\s*\)", text.strip().lower()):
        return text
    raise ConfigError(
        f"{text!r} is not a mode of statistics",
        hint="choices are none, counts, full and truncate(n) such as truncate(16)",
    )


FLAG = Kind("boolean", parse_boolean)
WHOLE = Kind("integer", parse_integer)
COUNT = WHOLE.within(least=0)
POSITIVE = WHOLE.within(least=1)
NUMBER = Kind("number", parse_number)
SHARE = NUMBER.within(least=0, most=1)
SIZE = Kind("size", parse_size)  # in bytes
DURATION = Kind("duration", parse_duration)  # in milliseconds
TEXT = Kind("text", str)
FILE_PREFIX = Kind("text", _file_prefix)
COLUMN = Kind("column", str.strip)
NAMES = Kind("names", _names)  # separated by commas
STATISTICS = Kind("statistics", _statistics)
LEVELS = Kind("per level", _by_level)  # a text for some levels
