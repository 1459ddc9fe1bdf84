"""Arguments of the public verbs, refused by name when they are of another kind than the verb understands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from penstock.errors import ConfigError


def whole_number(value: object, what: str) -> int:
    """`value`, when it is a number without a fraction."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{what} is a whole number, not {value!r}")
    return value


def epoch_millis(moment: object, what: str) -> int:
    """A datetime or its text, in local time where no zone is named, or epoch milliseconds as they are."""
    if isinstance(moment, str):
        moment = _datetime(moment, what)
    if isinstance(moment, datetime):
        return int(moment.timestamp() * 1000)
    if not isinstance(moment, int) or isinstance(moment, bool):
        raise ConfigError(f"{what} is a datetime, its text or epoch milliseconds, not {moment!r}")
    return moment


def _datetime(text: str, what: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as reason:
        raise ConfigError(
            f"{what}: {text!r} is not a point in time", hint="write it as 2026-01-31 12:00:00, or as epoch milliseconds"
        ) from reason


def option_texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Options as the texts that a table keeps: `True` is `true`, numbers are their digits."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (options or {}).items()
    }


def mappings(given: object, what: str) -> list[Mapping[str, object]]:
    """A list of mappings; a single one is most likely meant to be in a list."""
    if isinstance(given, Mapping | str) or not isinstance(given, Iterable):
        raise ConfigError(f"{what} are a list", hint=f"write {what}=[{given!r}]")
    found = list(given)
    for one in found:
        if not isinstance(one, Mapping):
            raise ConfigError(f"one of the {what} is no mapping: {one!r}", hint="name columns and their values")
    return found
