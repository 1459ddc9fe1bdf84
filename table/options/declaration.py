"""The declaration of a table option: its value type, its default, its meaning, and what Penstock does about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Generic, TypedDict, TypeVar, Unpack, overload

from penstock.table.options.kinds import Kind

# Covariant, so that options with values of any type are a tuple of TableOption[object].
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Effect(Enum):
    """The treatment of an option: Penstock acts on it, reports that it has no effect, or refuses it."""

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
    """The use of a table that a refused option prevents if another engine set it. Setting it is always refused."""

    SETTING = 0
    WRITING = 1  # rows would be written differently from what the option requires
    READING = 2  # rows would be read differently, and also written


@dataclass(frozen=True, slots=True)
class TableOption(Generic[T_co]):
    """One option of Paimon. A part of the key in angle brackets matches any text: `fields.<column>.distinct`.

    The type parameter is the type of its value; it includes None if the option has no default.

    `note` says what happens instead of a reported option, or how to do without a refused one. Values in `harmless` have
    the same effect as the default; only other values are reported or refused. A table that another engine created with
    a refused value can be read and written as far as `stops` allows, and always if the value is in `tolerated`. `later`
    marks options that Paimon 1.3 does not have.
    """

    key: str
    kind: Kind[T_co]
    # The text, as a table would contain it and as the documentation shows it.
    default: str | None
    meaning: str
    effect: Effect
    note: str = ""
    scope: Scope = Scope.TABLE
    harmless: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    stops: Stops = Stops.SETTING
    old_keys: tuple[str, ...] = ()  # keys of older releases, the oldest first
    later: bool = False

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """Return a pattern for the keys of an option whose key has a variable part; None for other options."""
        if "<" not in self.key:
            return None
        return re.compile("(.+)".join(map(re.escape, self._parts())))

    def of(self, name: str) -> TableOption[T_co]:
        """Return the option whose variable part is `name`."""
        # Only for keys with a single variable part.
        before, after = self._parts()
        return replace(self, key=f"{before}{name}{after}")

    def asks(self, text: str) -> bool:
        """Return whether the value has another effect than not setting the option."""
        value = self.kind.parse(text)
        usual = [] if self.default is None else [self.default]
        # An empty text has the same effect as no text.
        if self.default is None and value == "":
            return False
        return all(value != self.kind.parse(text) for text in (*usual, *self.harmless))

    def _parts(self) -> list[str]:
        return re.split(r"<[^>]*>", self.key)


class Details(TypedDict, total=False):
    scope: Scope
    harmless: tuple[str, ...]
    tolerated: tuple[str, ...]
    stops: Stops
    old_keys: tuple[str, ...]
    later: bool


# An option without a default may have no value, so None is one of the types of its value.
@overload
def acts(key: str, kind: Kind[T], default: str, meaning: str, **details: Unpack[Details]) -> TableOption[T]: ...
@overload
def acts(key: str, kind: Kind[T], default: None, meaning: str, **details: Unpack[Details]) -> TableOption[T | None]: ...
def acts(
    key: str, kind: Kind[T], default: str | None, meaning: str, **details: Unpack[Details]
) -> TableOption[T | None]:
    """Return an option that Penstock acts on."""
    return TableOption(key, kind, default, meaning, Effect.ACTS, **details)


@overload
def reported(
    key: str, kind: Kind[T], default: str, meaning: str, note: str, **details: Unpack[Details]
) -> TableOption[T]: ...
@overload
def reported(
    key: str, kind: Kind[T], default: str | None, meaning: str, note: str, **details: Unpack[Details]
) -> TableOption[T | None]: ...
def reported(
    key: str, kind: Kind[T], default: str | None, meaning: str, note: str, **details: Unpack[Details]
) -> TableOption[T | None]:
    """Return an option that has no effect in Penstock and is reported."""
    return TableOption(key, kind, default, meaning, Effect.REPORTED, note, **details)


def refused(
    key: str, kind: Kind[T], default: str | None, meaning: str, note: str, **details: Unpack[Details]
) -> TableOption[T | None]:
    """Return an option that Penstock refuses."""
    return TableOption(key, kind, default, meaning, Effect.REFUSED, note, **details)


def with_note(note: str, *options: TableOption[object]) -> tuple[TableOption[object], ...]:
    """Return the options, all with one note."""
    return tuple(replace(option, note=note) for option in options)
