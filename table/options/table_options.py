"""The options of a table as typed values: each is parsed once, by its declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from penstock.errors import ConfigError
from penstock.table.options.declaration import TableOption

T = TypeVar("T")
# None is the value of an option without a default.
_UNSET = object()
# The parsed defaults of this process, by parser and text. Not by option key: some keys contain the name of a column, so
# their number has no limit.
_DEFAULTS: dict[tuple[object, str], object] = {}


class TableOptions:
    """The options of a table, or of a table and a read: `options[WRITE_ONLY]` is a boolean.

    An option that is not set has its declared default. An option that is not set under its current key is read under
    the keys of older releases, and in lower case, as Spark passes keys. A value is parsed when it is read for the first
    time, since another engine may have given invalid values to options that do not matter here; an invalid value raises
    ConfigError with its key. The texts must not change.
    """

    __slots__ = ("_values", "texts")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._values: dict[str, object] = {}

    def __getitem__(self, option: TableOption[T]) -> T:
        """Return the value of the option, or its default."""
        value = self._values.get(option.key, _UNSET)
        if value is _UNSET:
            # Threads may parse a value twice, with equal results, so no lock is needed.
            value = self._values[option.key] = self._parsed(option)
        return cast("T", value)

    def __contains__(self, option: TableOption[object]) -> bool:
        """Return whether the option is set."""
        return self._key(option) in self.texts

    def given(self, option: TableOption[T]) -> T | None:
        """Return the value of the option, or None if it is not set, even if it has a declared default."""
        return self[option] if self._key(option) in self.texts else None

    def get(self, option: TableOption[T | None], default: T) -> T:
        """Return the value of the option, or a default that depends on other options or on the caller."""
        value = self.given(option)
        return default if value is None else value

    def text(self, option: TableOption[object]) -> str | None:
        """Return the text of the value, or the default, without a check."""
        return self.texts.get(self._key(option), option.default)

    def matching(self, option: TableOption[T]) -> Iterator[tuple[str, TableOption[T]]]:
        """Return the options that are set of a declaration with a variable part, each with that part."""
        for key in self.texts:
            found = option.pattern.fullmatch(key) if option.pattern else None
            if found:
                yield found[1], option.of(found[1])

    def __reduce__(self) -> tuple[type[TableOptions], tuple[Mapping[str, str]]]:
        # Parsed values are not pickled, since tasks read few of them.
        return TableOptions, (self.texts,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableOptions) and self.texts == other.texts

    __hash__ = None  # type: ignore[assignment]  # the texts are a dict

    def _key(self, option: TableOption[object]) -> str:
        """Return the key under which the option is set."""
        # The current key wins over old ones if a table has both.
        for key in (option.key, *option.old_keys, option.key.lower()):
            if key in self.texts:
                return key
        return option.key

    def _parsed(self, option: TableOption[T]) -> T | None:
        text = self.texts.get(self._key(option))
        if text is not None:
            return _value(option, text)
        if option.default is None:
            return None
        declared = (option.kind.read, option.default)
        value = _DEFAULTS.get(declared, _UNSET)
        if value is _UNSET:
            value = _DEFAULTS[declared] = _value(option, option.default)
        return cast("T", value)


def _value(option: TableOption[T], text: str) -> T:
    try:
        return option.kind.parse(text)
    except ConfigError as reason:
        raise ConfigError(reason.message, hint=reason.hint, option=option.key) from reason
