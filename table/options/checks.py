"""Checks of table options: keys must be known, values must be valid, and unsupported options are refused.

Options that a user passes (CREATE, ALTER, a read, a write) must be known, have values of their type, and be supported.
A table that another engine created may have options that Penstock refuses. It can be read and written where the
resulting rows are correct.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.table.options.catalog import find, option_named
from penstock.table.options.declaration import Effect, Stops, TableOption

log = logging.getLogger(__name__)


def check_given(options: Mapping[str, str]) -> None:
    """Raise ConfigError for the first option that is unknown, has a value of the wrong type, or is refused."""
    for key, text in options.items():
        option = option_named(key)
        if _asks(option, key, text) and option.effect is Effect.REFUSED:
            raise _refusal(option, key, text)


def check_readable(options: Mapping[str, str]) -> None:
    """Raise ConfigError when rows of a table with these options would be read incorrectly."""
    _check(options, Stops.READING, "be read")


def check_writable(options: Mapping[str, str]) -> None:
    """Raise ConfigError when rows of a table with these options would be written incorrectly."""
    _check(options, Stops.WRITING, "be written")


def without_effect(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are set but have no effect in Penstock, each with a note on what happens instead."""
    found = {}
    for key in sorted(options):
        option = find(key)
        if option is not None and option.effect is not Effect.ACTS and has_other_value(option, key, options[key]):
            found[key] = option.note
    return found


def has_other_value(option: TableOption[object], key: str, text: str) -> bool:
    """Return whether an option has another value than its default, or one that is invalid."""
    try:
        return _asks(option, key, text)
    except ConfigError:
        return True  # another engine set an invalid value: report it as it is


def report(subject: str, options: Mapping[str, str]) -> None:
    """Log the options of a read or job that have no effect on any table."""
    log_without_effect(subject, options, without_effect(options))


def log_without_effect(subject: str, options: Mapping[str, str], notes: Mapping[str, str]) -> None:
    """Log the options with notes, once per process for the same values of the same table, read or job."""
    if not notes:
        return
    # The entry contains the values, so that a changed option is reported again.
    known = (subject, *sorted((key, options[key]) for key in notes))
    with _lock:
        if known in _reported:
            return
        _reported.add(known)
    listed = "; ".join(f"{key} ({note})" for key, note in notes.items())
    log.warning('event=options_without_effect of="%s" options="%s"', subject, listed)


# A driver opens tables in several threads.
_lock = threading.Lock()
_reported: set[tuple[object, ...]] = set()


def _check(options: Mapping[str, str], stops: Stops, verb: str) -> None:
    for key in options:
        option = find(key)
        # Stops are ordered: an option that stops reads stops writes too. Unknown options of later releases stop
        # nothing.
        if option is None or option.effect is not Effect.REFUSED or option.stops < stops:
            continue
        if options[key] not in option.tolerated and _asks(option, key, options[key]):
            raise ConfigError(
                f"a table with {key} = {options[key]} cannot {verb} here",
                option=key,
                meaning=option.meaning,
                hint="use the engine that made the table, or reset the option on a copy of it",
            )


def _asks(option: TableOption[object], key: str, text: str) -> bool:
    try:
        return option.asks(text)
    except ConfigError as reason:
        raise ConfigError(reason.message, hint=reason.hint, option=key) from reason


def _refusal(option: TableOption[object], key: str, text: str) -> ConfigError:
    return ConfigError(f"{key} = {text} is not supported", option=key, meaning=option.meaning, hint=option.note)
