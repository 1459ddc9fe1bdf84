"""Each line that the product logs is an event with its values: `event=NAME key=value`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.event_pages import SECTIONS, levels_of_events
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


def test_the_page_of_log_events_lists_each_event_once() -> None:
    """A name that is built when it is logged must be listed in docs/event_pages.py."""
    described = [name for events in SECTIONS.values() for name in events]
    assert sorted(described) == sorted(levels_of_events())


def test_each_log_event_is_described_in_words() -> None:
    found = [name for events in SECTIONS.values() for name, (meaning, _) in events.items() if len(meaning.split()) < 3]
    assert found == []


def test_the_level_of_an_event_is_that_of_the_call_that_logs_its_text() -> None:
    levels = levels_of_events()
    assert levels["committed"] == {"info"}
    assert levels["lookup_waits"] == {"info"}  # the text is in a variable
    assert levels["lookup_snapshot_expired"] == {"warning"}
    assert levels["table_incompatible"] == {"warning"}  # the text is kept and logged later
    assert levels["tables_read_again"] == {"info"}
    assert levels["mysql_connection"] == {"info or warning"}  # the level is chosen when it is logged
    assert levels["slow_statement"] == {"info", "warning"}
    assert levels["kafka_client"] == {"warning"}  # a filter sets it
