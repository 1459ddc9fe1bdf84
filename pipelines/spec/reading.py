"""From plain values to a PipelineSpec, with errors that a person can act on."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError

from penstock.errors import ConfigError
from penstock.pipelines.spec.model import PipelineSpec

Place = tuple[str | int, ...]
_KINDS = {"kafka", "files", "mysql"}


def parsed(values: Mapping[str, Any], line_of: Callable[[Place], int | None] = lambda _: None) -> PipelineSpec:
    """The pipeline these values describe; ConfigError tells the first thing that is wrong, and where."""
    found = examined(values, line_of)
    if isinstance(found, PipelineSpec):
        return found
    raise found[0]


def examined(
    values: Mapping[str, Any], line_of: Callable[[Place], int | None] = lambda _: None
) -> PipelineSpec | list[ConfigError]:
    """The pipeline, or all that is wrong with its description."""
    try:
        return PipelineSpec.model_validate(values)
    except ValidationError as error:
        return [_told(one, line_of) for one in error.errors()]


def _told(one: Any, line_of: Callable[[Place], int | None]) -> ConfigError:
    # The name of the chosen kind of source stands in pydantic's path, but in no file.
    place = tuple(part for part in one["loc"] if part not in _KINDS or len(one["loc"]) == 1)
    where = ".".join(map(str, place))
    line = line_of(place)
    if one["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(place[-1]), _known_names(), 1)
        hint = f"did you mean {near[0]}?" if near else None
        return ConfigError(f"`{place[-1]}` is not known", key=where, line=line, hint=hint)
    if one["type"] == "missing":
        return ConfigError(f"`{place[-1]}` is missing", key=where, line=line, hint="docs/options.md  says what it is")
    message = str(one["msg"]).removeprefix("Value error, ")
    return ConfigError(message, key=where or None, line=line)


@cache
def _known_names() -> list[str]:
    """Every key that a pipeline may have anywhere."""
    sections = PipelineSpec.model_json_schema().get("$defs", {}).values()
    return sorted({name for section in sections for name in section.get("properties", {})})
