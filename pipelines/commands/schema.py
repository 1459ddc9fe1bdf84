"""`penstock schema`: the JSON Schema of pipeline files, for editors that complete and check them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import parse

FLAGS = (
    Flag("output", "file to write to (default: standard output)", metavar="FILE"),
    Flag("json", "accepted without effect: the output is always JSON", "bool"),
)
_SCALARS = ("integer", "number", "boolean")


def command(name: str, words: list[str]) -> int:
    flags = parse(name, FLAGS, words, "Write the JSON Schema of pipeline files.")
    text = json.dumps(json_schema(), indent=2)
    if "output" in flags:
        Path(flags["output"][-1]).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return 0


def json_schema() -> dict[str, Any]:
    """Return the schema. Every scalar may also be a string, since `${NAME}` may replace any scalar."""
    from penstock.pipelines.config.model import PipelineSpec

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
