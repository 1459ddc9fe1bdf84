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
TOP = "the top of the file"
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
        return ConfigError(f"`{place[-1]}` is not known", key=where, line=line, hint=_nearest(place))
    if one["type"] == "missing":
        return ConfigError(f"`{place[-1]}` is missing", key=where, line=line, hint="docs/options.md  says what it is")
    if one["type"].startswith("union_tag"):
        given = one.get("ctx", {}).get("tag")
        near = difflib.get_close_matches(str(given), sorted(_KINDS), 1)
        kinds = "there are kafka, files and mysql"
        told = "`type` is missing" if given is None else f"there is no source of type {given!r}"
        hint = f"did you mean {near[0]}? {kinds}" if near else kinds
        return ConfigError(told, key=f"{where}.type", line=line_of((*place, "type")), hint=hint)
    message = str(one["msg"]).removeprefix("Value error, ")
    return ConfigError(message, key=where or None, line=line)


def _nearest(place: Place) -> str | None:
    """The key of the same section that was meant, else the section that has such a key."""
    name = str(place[-1])
    beside = difflib.get_close_matches(name, _keys_below(place[:-1]), 1)
    if beside:
        return f"did you mean {beside[0]}?"
    elsewhere = [section for section, keys in _sections().items() if name in keys]
    if elsewhere:
        return f"`{name}` belongs into {' or '.join(elsewhere)}"
    near = difflib.get_close_matches(name, sorted({key for keys in _sections().values() for key in keys}), 1)
    return f"did you mean {near[0]}?" if near else None


def _keys_below(place: Place) -> frozenset[str]:
    return _sections().get(_shown(place), frozenset())


def _shown(place: Place) -> str:
    """`transform.filter` for each of the transforms."""
    return ".".join(part for part in place if isinstance(part, str)) or TOP


@cache
def _sections() -> dict[str, frozenset[str]]:
    """The keys of each section, by where it stands."""
    schema = PipelineSpec.model_json_schema()
    found: dict[str, frozenset[str]] = {}

    def visit(node: Any, place: tuple[str, ...]) -> None:
        for one in [node, node.get("items", {}), *node.get("anyOf", ()), *node.get("oneOf", ())]:
            target = schema["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            keys = target.get("properties", {})
            if keys:
                found[_shown(place)] = found.get(_shown(place), frozenset()) | keys.keys()
            for name, below in keys.items():
                visit(below, (*place, name))

    visit(schema, ())
    return found
