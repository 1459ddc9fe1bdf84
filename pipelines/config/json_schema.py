"""The JSON Schema of pipeline files, with which editors complete keys and mark mistakes while typing."""

from __future__ import annotations

from typing import Any

from penstock.pipelines.config.model import PipelineSpec

_SCALARS = ("integer", "number", "boolean")


def json_schema() -> dict[str, Any]:
    """Return the schema. Every scalar may also be a string, since `${NAME}` may replace any scalar."""
    schema = PipelineSpec.model_json_schema(by_alias=True)
    _loosen(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "A Penstock pipeline",
    }


def _loosen(part: Any) -> None:
    if isinstance(part, dict):
        if part.get("type") in _SCALARS:
            part["type"] = [part["type"], "string"]
        if part.get("type") == "array" and "items" in part:
            part["type"] = ["array", "string"]
        for inner in part.values():
            _loosen(inner)
    elif isinstance(part, list):
        for inner in part:
            _loosen(inner)
