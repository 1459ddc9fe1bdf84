"""Flat options of a read as the section `source` that the connector validates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from penstock.errors import ConfigError, did_you_mean
from penstock.ingest.connector import Connector, SourceConfig
from penstock.settings import Wrong

_PAGE = "see docs/spark-sources.md"


def section_of(connector: Connector[Any], given: Mapping[str, str], read_options: Iterable[str]) -> SourceConfig:
    """Return the validated section `source` that flat options describe.

    An error about an unknown option lists the `read_options` too, which are not of the connector.
    """
    section: dict[str, Any] = {}
    for name, value in given.items():
        if name == "type" or not _place(section, connector.config, name, value):
            known = sorted({*read_options, *_names(connector.config)} - {"type"})
            raise ConfigError(
                f"{name!r} is not an option of {connector.name}-cdc",
                option=name,
                hint=did_you_mean(name, known, f"the options are {', '.join(known)}"),
            )
    try:
        config: SourceConfig = connector.config.model_validate({**section, "type": connector.name})
    except ValidationError as error:
        raise _config_error(error) from error
    return config


def _config_error(error: ValidationError) -> ConfigError:
    fault = error.errors()[0]
    option = ".".join(map(str, fault["loc"])) or None
    wrong = fault.get("ctx", {}).get("error")
    if isinstance(wrong, Wrong):
        return ConfigError(wrong.message, option=option, hint=wrong.hint, **wrong.facts)
    if fault["type"] == "missing":
        return ConfigError(f"the option {option} is missing", hint=f'.option("{option}", ...); {_PAGE}')
    # Without the value, which may be a secret.
    return ConfigError(str(fault["msg"]).removeprefix("Value error, "), option=option, hint=_PAGE)


def _place(section: dict[str, Any], model: type[BaseModel], name: str, value: str) -> bool:
    """Put an option into the section. Return False if the model has no such key."""
    for key, field in _keys(model).items():
        inner = _inner(field)
        if name == key and inner is None:
            section[key] = value
            return True
        rest = name.removeprefix(f"{key}.")
        if inner is None or rest == name:
            continue
        below = section.setdefault(key, {})
        if not issubclass(inner, BaseModel):
            below[rest] = value
            return True
        if _place(below, inner, rest, value):
            return True
    return False


def _keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name.replace("_", "-"): field for name, field in model.model_fields.items()}


def _inner(field: FieldInfo) -> type[BaseModel] | type[dict[str, str]] | None:
    """Return the model of an inner section, dict for one with any keys, None for a plain value."""
    kinds = [field.annotation, *get_args(field.annotation)]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return dict if getattr(field.annotation, "__origin__", None) is dict else None


def _names(model: type[BaseModel]) -> list[str]:
    """Return the names of all options that the model stands for; `*` for any key."""
    found = []
    for key, field in _keys(model).items():
        inner = _inner(field)
        if inner is None:
            found.append(key)
        elif issubclass(inner, BaseModel):
            found += [f"{key}.{name}" for name in _names(inner)]
        else:
            found.append(f"{key}.*")
    return found
