"""Each line that the product logs is an event with its values: `event=NAME key=value`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import source_nodes

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("formats", "ingest", "pipelines", "schema_evolution", "storage", "table")
LEVELS = {"info", "warning", "error", "critical", "exception"}


def texts() -> Iterator[tuple[str, str]]:
    """The place and the text of each call of a logger with a constant text."""
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        for node in source_nodes(path):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=[ast.Constant(value=str(text)), *_]
                ) if level in LEVELS:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_each_line_of_the_log_names_its_event() -> None:
    found = list(texts())
    assert len(found) > 100
    assert not [event for event in found if not event[1].startswith("event=")]
