"""The base class of all sections of a pipeline file, and types for values that people write: durations, sizes, lists.

A package that adds a source describes its section by these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from penstock.errors import ConfigError
from penstock.references import masked

Text = dict[str, str]
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def _key(name: str) -> str:
    return name.replace("_", "-")


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return masked(name.replace("_", "."), value)
    if isinstance(value, dict):
        return {key: _shown(str(key), setting) for key, setting in value.items()}
    return value


class Wrong(ValueError):
    """A ConfigError of another parser, as the ValueError that pydantic needs to report it with its place in the
    file.
    """

    def __init__(self, error: ConfigError) -> None:
        super().__init__(error.message)
        self.message, self.hint, self.facts = error.message, error.hint, error.facts


@contextmanager
def errors_in_place() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Wrong(error) from error


class Strict(BaseModel):
    """Base model: unknown keys are errors; hyphens and underscores are equivalent."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_key, populate_by_name=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what logs may show: secrets are masked, also secrets within URLs."""
        for name, value in super().__repr_args__():
            yield name, _shown(name or "", value)


def seconds(text: object) -> float:
    """Return the seconds of `30s`, `5 min` or `250ms`; a bare number is seconds."""
    number, unit = _split(text, "30s, 5min, 250ms")
    if unit and unit not in _SECONDS:
        raise ValueError(f"{text!r} is not a duration; write for example 30s, 5min, 250ms")
    return number * _SECONDS[unit or "s"]


def size(text: object) -> int:
    """Return the bytes of `64mb` or `1gb`; a bare number is bytes."""
    number, unit = _split(text, "64mb, 1gb")
    if unit not in _BYTES:
        raise ValueError(f"{text!r} is not a size; write for example 64mb, 1gb")
    return int(number * _BYTES[unit])


def share(text: object) -> float:
    """Return the fraction, from 0 to 1, of `0.1%` or `0.001`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(text))
    part = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= part <= 1:
        raise ValueError(f"{text!r} is not a share; write for example 0.1%, 5%, 0.001")
    return part


def time_zone(name: str) -> str:
    """Return the name of a time zone; ValueError for any other text."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: the name of a folder of zones
        raise ValueError(
            f"{name!r} is not a time zone; write for example Europe/Berlin, or Etc/GMT-8 for +08:00"
        ) from error
    return name


def check_mode(startup: BaseModel, modes: Mapping[str, str]) -> None:
    """Raise ValueError for an option of a startup mode if no mode is set, as the start would be another one.

    Beside a mode, options of other modes have no effect: `--from` sets the mode alone.
    """
    if "mode" in startup.model_fields_set:
        return
    given = startup.model_dump(exclude_unset=True)
    for name, mode in modes.items():
        if given.get(name) is not None:
            raise ValueError(f"{_key(name)} has no effect without  mode: {mode}")


def _split(text: object, examples: str) -> tuple[float, str]:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower())
    if not found:
        raise ValueError(f"{text!r} cannot be parsed; write for example {examples}")
    return float(found[1]), found[2]


def _names(given: object) -> object:
    """Accept `a, b` for a list."""
    return tuple(part.strip() for part in given.split(",") if part.strip()) if isinstance(given, str) else given


TimeZone = Annotated[str, AfterValidator(time_zone)]
Seconds = Annotated[float, BeforeValidator(seconds)]
Share = Annotated[float, BeforeValidator(share)]
Bytes = Annotated[int, BeforeValidator(size)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
