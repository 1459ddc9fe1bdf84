"""Validates plain values into a PipelineSpec, with errors that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError

from penstock.errors import ConfigError, did_you_mean, nearest
from penstock.ingest.connectors import unknown_type
from penstock.pipelines.config.model import NAME_PATTERN, PipelineSpec
from penstock.pipelines.config.sink import RETAINED_PATTERN
from penstock.pipelines.config.source_section import UNKNOWN_TYPE
from penstock.references import masked
from penstock.settings import Wrong

Place = tuple[str | int, ...]
TOP = "the top of the file"


def parsed(values: Mapping[str, Any], line_of: Callable[[Place], int | None] = lambda _: None) -> PipelineSpec:
    """Return the pipeline that the values describe.

    Raise ConfigError for the first problem, with its place in the file.
    """
    found = examined(values, line_of)
    if isinstance(found, PipelineSpec):
        return found
    raise found[0]


def examined(
    values: Mapping[str, Any], line_of: Callable[[Place], int | None] = lambda _: None
) -> PipelineSpec | list[ConfigError]:
    """Return the pipeline, or a list of everything that is wrong with its description."""
    try:
        return PipelineSpec.model_validate(values)
    except ValidationError as error:
        found = error.errors()
        # A misspelt key causes two errors, unknown key and missing key. Only the unknown key is in the file, so it is
        # reported first and the missing one is dropped.
        unknown = [fault for fault in found if fault["type"] == "extra_forbidden"]
        meant = {(*tuple(fault["loc"])[:-1], _beside(tuple(fault["loc"]))) for fault in unknown}
        rest = [fault for fault in found if fault not in unknown]
        rest = [fault for fault in rest if fault["type"] != "missing" or tuple(fault["loc"]) not in meant]
        return [_config_error(fault, line_of) for fault in (*unknown, *rest)]


def _beside(place: Place) -> str | None:
    """Return the key of the same section that was probably meant."""
    name = str(place[-1])
    # Sources of all types are one section here, so a key that this type lacks may be one of another type.
    return nearest(name, _keys_below(place[:-1]) - {name})


def _config_error(fault: Any, line_of: Callable[[Place], int | None]) -> ConfigError:
    place = tuple(fault["loc"])
    where = ".".join(map(str, place))
    line = line_of(place)
    if fault["type"] == "extra_forbidden":
        return ConfigError(f"`{place[-1]}` is unknown", key=where, line=line, hint=_nearest(place))
    if fault["type"] == "missing":
        return ConfigError(f"`{place[-1]}` is missing", key=where, line=line, hint=_PAGE)
    if fault["type"] == UNKNOWN_TYPE:
        return _without_type(fault["ctx"], place, line_of)
    if fault["type"] in _WANTED or fault["type"] in _NAMED:
        return _of_another_kind(fault, place, line)
    # An error of our own that a validator raised, with its hint and facts.
    wrong = fault.get("ctx", {}).get("error")
    if isinstance(wrong, Wrong):
        return ConfigError(wrong.message, key=where, line=line, hint=wrong.hint, **wrong.facts)
    return ConfigError(str(fault["msg"]).removeprefix("Value error, "), key=where or None, line=line, hint=_PAGE)


def _without_type(found: Mapping[str, Any], place: Place, line_of: Callable[[Place], int | None]) -> ConfigError:
    """Return the error for a section whose type is unknown, misspelt or missing."""
    where = ".".join(map(str, place))
    misspelt = nearest("type", [key for key in found["keys"] if isinstance(key, str) and "." not in key])
    if found["given"] is None and misspelt is not None:
        line = line_of((*place, misspelt))
        return ConfigError(f"`{misspelt}` is unknown", key=f"{where}.{misspelt}", line=line, hint="did you mean type?")
    return unknown_type(found["given"], key=f"{where}.type", line=line_of((*place, "type")))


_PAGE = "see docs/options.md"
_MAPPING, _LIST = "keys and values", "a list"
_WANTED = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _MAPPING),
    **dict.fromkeys(("tuple_type", "list_type"), _LIST),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "one value",
}
# How a text is written that a pattern limits. Connectors of other packages have patterns of their own.
_WRITTEN = {
    NAME_PATTERN: "a name does not begin with a dot, and has no / and no \\: it is also that of a folder",
    RETAINED_PATTERN: "write a number such as 10, or a range such as 10..100",
}
_NAMED = {
    "literal_error",
    "string_pattern_mismatch",
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
}


def _of_another_kind(fault: Any, place: Place, line: int | None) -> ConfigError:
    """Return the error for a value of the wrong type: the value, the expected type, and how to write it."""
    where, given, hint = ".".join(map(str, place)), fault["input"], None
    match given:
        case str():
            shown = masked(where, repr(given))
        case Mapping():
            shown = "a mapping"
        case list() | tuple():
            shown = "a list"
        case _:
            shown = str(given)
    wanted = _WANTED.get(fault["type"])
    if wanted is None:
        message = f"{shown} is not allowed here: {str(fault['msg']).replace('Input', 'it', 1)}"
        if fault["type"] == "literal_error":
            hint = did_you_mean(str(given), re.findall(r"'([^']+)'", fault["ctx"]["expected"]))
        elif fault["type"] == "string_pattern_mismatch" and (written := _WRITTEN.get(fault["ctx"]["pattern"])):
            message, hint = f"{shown} is not allowed here", written
    else:
        message = f"expected {wanted}, not {shown}" if given is not None else f"a value is missing: expected {wanted}"
    if wanted == _MAPPING:
        keys = sorted(_keys_below(place))
        hint = f"write it as  {place[-1]}: {{key: value}}" + (f"; its keys are {', '.join(keys[:12])}" if keys else "")
    elif wanted == _LIST:
        hint = "write it as  [one, two], or as lines that begin with  -"
    return ConfigError(message, key=where, line=line, hint=hint)


def _nearest(place: Place) -> str | None:
    """Return a hint: the key of the same section that was probably meant, or else the section that has such a key."""
    name = str(place[-1])
    if (beside := _beside(place)) is not None:
        return f"did you mean {beside}?"
    own = _shown(place[:-1])
    elsewhere = [section for section, keys in _sections().items() if name in keys and section != own]
    if elsewhere:
        return f"move `{name}` to {' or '.join(elsewhere)}"
    if name in _keys_below(place[:-1]):
        return f"a {own} of another type has this key: docs/options.md lists the keys of each"
    return did_you_mean(name, sorted({key for keys in _sections().values() for key in keys}))


def _keys_below(place: Place) -> frozenset[str]:
    return _sections().get(_shown(place), frozenset())


def _shown(place: Place) -> str:
    """Return the path without list indexes: `transform.filter` for any of the transforms."""
    return ".".join(part for part in place if isinstance(part, str)) or TOP


@cache
def _sections() -> dict[str, frozenset[str]]:
    """Return the keys of each section, by the section's path."""
    schema = PipelineSpec.model_json_schema()
    found: dict[str, frozenset[str]] = {}

    def visit(node: Any, place: tuple[str, ...]) -> None:
        # Sections are referred to directly, as items of a list, as alternatives to null, and by the type of the
        # source.
        for branch in [node, node.get("items", {}), *node.get("anyOf", ()), *node.get("oneOf", ())]:
            target = schema["$defs"][branch["$ref"].rpartition("/")[2]] if "$ref" in branch else branch
            keys = target.get("properties", {})
            if keys:
                found[_shown(place)] = found.get(_shown(place), frozenset()) | keys.keys()
            for name, below in keys.items():
                visit(below, (*place, name))

    visit(schema, ())
    return found
