"""Typed access to a table's options. Each caller names the options that it acts on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from penstock.errors import ConfigError
from penstock.table.schema.option_catalog import OLD_KEYS, find
from penstock.table.schema.option_values import choose, parse_boolean, parse_duration, parse_integer, parse_size

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Options:
    """A typed view of a table's options. An invalid value raises ConfigError with the key of the option.

    An option that is not set under its current key is read under the keys of older releases.
    """

    values: Mapping[str, str]

    @overload
    def text(self, key: str, default: str) -> str: ...
    @overload
    def text(self, key: str, default: None) -> str | None: ...
    def text(self, key: str, default: str | None) -> str | None:
        return self.values.get(self._name(key), default)

    @overload
    def integer(self, key: str, default: int) -> int: ...
    @overload
    def integer(self, key: str, default: None) -> int | None: ...
    def integer(self, key: str, default: int | None) -> int | None:
        """Return the value as an integer. Raise ConfigError also when it is out of the option's range."""
        return self._parsed(key, lambda text: _in_range(key, parse_integer(text)), default)

    @overload
    def size(self, key: str, default: int) -> int: ...
    @overload
    def size(self, key: str, default: None) -> int | None: ...
    def size(self, key: str, default: int | None) -> int | None:
        """Return the value in bytes."""
        return self._parsed(key, parse_size, default)

    @overload
    def duration(self, key: str, default: int) -> int: ...
    @overload
    def duration(self, key: str, default: None) -> int | None: ...
    def duration(self, key: str, default: int | None) -> int | None:
        """Return the value in milliseconds."""
        return self._parsed(key, parse_duration, default)

    def boolean(self, key: str, default: bool) -> bool:
        return self._parsed(key, parse_boolean, default)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        return self._parsed(key, lambda text: choose(text, choices), default)

    def names(self, key: str) -> tuple[str, ...]:
        """Return a comma-separated list of names; an empty tuple when the option is not set."""
        return tuple(name.strip() for name in self.values.get(self._name(key), "").split(",") if name.strip())

    def _name(self, key: str) -> str:
        """Return the key under which the option is set."""
        if key in self.values:
            return key
        return next((old for old in OLD_KEYS.get(key, ()) if old in self.values), key)

    def _parsed(self, key: str, parse: Callable[[str], T], default: D) -> T | D:
        value = self.values.get(self._name(key))
        if value is None:
            return default
        try:
            return parse(value)
        except ConfigError as reason:
            raise ConfigError(reason.message, hint=reason.hint, option=key) from reason


def _in_range(key: str, number: int) -> int:
    option = find(key)
    if option is not None and option.kind.name == "integer":
        option.kind.check(number)
    return number
