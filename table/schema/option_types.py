"""The declaration of a table option: its value type, its meaning, and what Penstock does about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import TypeAlias, TypedDict, Unpack

from penstock.errors import ConfigError, nearest
from penstock.table.schema.option_values import parse_boolean, parse_duration, parse_integer, parse_size

Value: TypeAlias = bool | int | float | str


class Effect(Enum):
    """What Penstock does about an option: act on it, report that it has no effect, or refuse it."""

    ACTS = "acts"
    REPORTED = "reported"
    REFUSED = "refused"


class Scope(Enum):
    """The engine or operation that reads an option in Paimon."""

    TABLE = "table"
    READ = "read"
    FLINK = "Flink"
    SPARK = "Spark"
    ICEBERG = "Iceberg"


class Stops(IntEnum):
    """What a refused option prevents on a table that another engine created with it. Setting it is always refused."""

    SETTING = 0
    WRITING = 1  # rows would be written differently from what the option requires
    READING = 2  # rows would be read differently, and also written


@dataclass(frozen=True, slots=True)
class Kind:
    """A value type: how its text is parsed, and the valid range of the value."""

    name: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()

    def within(self, least: float | None = None, most: float | None = None) -> Kind:
        return replace(self, least=least, most=most)

    def parse(self, text: str) -> Value:
        """Return the value of the text. Raise ConfigError for an invalid text or a number out of range."""
        value = self._read(text)
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

    def _read(self, text: str) -> Value:
        match self.name:
            case "boolean":
                return parse_boolean(text)
            case "integer":
                return parse_integer(text)
            case "number":
                return _number(text)
            case "size":
                return parse_size(text)
            case "duration":
                return parse_duration(text)
            case "choice":
                return self._chosen(text)
            case "choices":
                return ",".join(self._chosen(part) for part in text.split(",") if part.strip())
            case "per level":
                return _levels(text)
            case "statistics":
                return _statistics(text)
        return text

    def _chosen(self, text: str) -> str:
        wanted = _folded(text)
        for choice in self.choices:
            if _folded(choice) == wanted:
                return choice
        near = nearest(text.strip(), self.choices)
        meant = f"did you mean {near}? " if near else ""
        raise ConfigError(f"{text!r} is not a choice", hint=f"{meant}choices are {', '.join(self.choices)}")


def _folded(text: str) -> str:
    return text.strip().lower().replace("_", "-")


def _number(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError as reason:
        raise ConfigError(f"{text!r} is not a number") from reason


def _levels(text: str) -> str:
    for pair in filter(None, (part.strip() for part in text.split(","))):
        level, colon, value = pair.partition(":")
        if not colon or not level.strip().isdigit() or not value.strip():
            raise ConfigError(f"{pair!r} is no level with its value", hint="write it as 0:avro,5:parquet")
    return text


def _statistics(text: str) -> str:
    if re.fullmatch(r"none|counts|full|truncate\(\s*[1-9]\d*\s*\)", text.strip().lower()):
        return text
    raise ConfigError(f"{text!r} is no way to keep statistics", hint="choices are none, counts, full and truncate(16)")


FLAG = Kind("boolean")
WHOLE = Kind("integer")
COUNT = WHOLE.within(least=0)
POSITIVE = WHOLE.within(least=1)
NUMBER = Kind("number")
SHARE = NUMBER.within(least=0, most=1)
SIZE = Kind("size")
DURATION = Kind("duration")
TEXT = Kind("text")
STATISTICS = Kind("statistics")
LEVELS = Kind("per level")


def one_of(*choices: str) -> Kind:
    """Return the value type of a single choice."""
    return Kind("choice", choices=choices)


def some_of(*choices: str) -> Kind:
    """Return the value type of a comma-separated list of choices."""
    return Kind("choices", choices=choices)


@dataclass(frozen=True, slots=True)
class TableOption:
    """One option of Paimon. A part of the key in angle brackets matches any text: `fields.<column>.distinct`.

    `note` says what happens instead of a reported option, or how to do without a refused one. Values in `harmless` have
    the same effect as the default; only other values are reported or refused. A table that another engine created with
    a refused value can be read and written as far as `stops` allows, and always if the value is in `tolerated`. `later`
    marks options that Paimon 1.3 does not have.
    """

    key: str
    kind: Kind
    default: str | None
    meaning: str
    effect: Effect
    note: str = ""
    scope: Scope = Scope.TABLE
    harmless: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    stops: Stops = Stops.SETTING
    old_keys: tuple[str, ...] = ()
    later: bool = False

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """Return a pattern for the keys of an option whose key has a variable part; None for other options."""
        if "<" not in self.key:
            return None
        parts = re.split(r"<[^>]*>", self.key)
        return re.compile(".+".join(map(re.escape, parts)))

    def asks(self, text: str) -> bool:
        """Return whether the value has another effect than not setting the option."""
        value = self.kind.parse(text)
        usual = [] if self.default is None else [self.default]
        if self.default is None and value == "":
            return False
        return all(value != self.kind.parse(one) for one in (*usual, *self.harmless))


class Details(TypedDict, total=False):
    scope: Scope
    harmless: tuple[str, ...]
    tolerated: tuple[str, ...]
    stops: Stops
    old_keys: tuple[str, ...]
    later: bool


def acts(key: str, kind: Kind, default: str | None, meaning: str, **details: Unpack[Details]) -> TableOption:
    """Return an option that Penstock acts on."""
    return TableOption(key, kind, default, meaning, Effect.ACTS, **details)


def reported(
    key: str, kind: Kind, default: str | None, meaning: str, note: str, **details: Unpack[Details]
) -> TableOption:
    """Return an option that has no effect in Penstock and is reported."""
    return TableOption(key, kind, default, meaning, Effect.REPORTED, note, **details)


def refused(
    key: str, kind: Kind, default: str | None, meaning: str, note: str, **details: Unpack[Details]
) -> TableOption:
    """Return an option that Penstock refuses."""
    return TableOption(key, kind, default, meaning, Effect.REFUSED, note, **details)
