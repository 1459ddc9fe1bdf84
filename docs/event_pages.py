"""The tables of docs/log-events.md: each event that the code logs, with the levels of the calls that log it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from docs import events_of_pipelines, events_of_sources, events_of_tables

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("formats", "ingest", "pipelines", "schema_evolution", "storage", "table", "extensions.py")
SECTIONS = {**events_of_pipelines.EVENTS, **events_of_sources.EVENTS, **events_of_tables.EVENTS}
# The names that a module puts into the placeholder of an event's name.
_NAMES: dict[tuple[str, str], tuple[str, ...]] = {
    ("ingest/database/action_options.py", "%s_conf_without_effect"): (
        "mysql_conf_without_effect",
        "postgres_conf_without_effect",
        "mongodb_conf_without_effect",
    ),
    ("ingest/kafka/open_transactions.py", "%s"): ("waits_for_transaction", "ends_before_transaction"),
    ("ingest/messages/actions.py", "%s_without_effect"): ("kafka_conf_without_effect", "pulsar_conf_without_effect"),
    ("ingest/mongodb/log/decode.py", "%s_not_followed"): (
        "drop_not_followed",
        "rename_not_followed",
        "dropDatabase_not_followed",
        "invalidate_not_followed",
        "unknown_not_followed",
    ),
    ("ingest/mysql/unlogged_columns.py", "%s"): ("added_columns_have_values", "values_changed_by_statement"),
    ("ingest/mysql/whole_table_ddl.py", "%s_not_followed"): ("truncate_not_followed", "drop_not_followed"),
    ("ingest/postgres/definition_change.py", "%s"): ("truncate_not_followed", "partitions_rewritten"),
    ("pipelines/driver/table_evolution.py", "%s_not_followed"): (
        "truncate_not_followed",
        "drop_not_followed",
        "rename_columns_not_followed",
    ),
    ("pipelines/driver/unlogged_values.py", "%s"): ("added_columns_not_filled", "changed_values_not_read"),
    ("pipelines/mapping/target_schemas.py", "%s"): ("types_not_declared", "sequence_is_text"),
}
_LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "log": "info or warning"}
_EVENT = re.compile(r"event=([\w%]+)")


def log_events() -> str:
    """Return a table per section; KeyError for an event that is described but not in the code."""
    levels = levels_of_events()
    lines = []
    for title, events in SECTIONS.items():
        lines += ["", f"## {title}", "", "| event | level | meaning | what to do |", "|---|---|---|---|"]
        for name, (meaning, action) in events.items():
            lines.append(f"| `{name}` | {', '.join(sorted(levels[name]))} | {meaning} | {action} |")
    return "\n".join(lines) + "\n\n"


@cache
def levels_of_events() -> dict[str, set[str]]:
    """Return the levels of each event that the code logs."""
    found = defaultdict[str, set[str]](set)
    for place in PACKAGES:
        path = ROOT / place
        for module in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for name, level in _events_of(module):
                found[name].add(level)
    return dict(found)


def _events_of(module: Path) -> Iterator[tuple[str, str]]:
    source = module.read_text(encoding="utf-8")
    if "event=" not in source:
        return
    nodes = list(ast.walk(ast.parse(source)))
    calls = list(_calls(nodes))
    direct = {id(part): level for level, text in calls for part in ast.walk(text)}
    without_text = sorted((text.lineno, level) for level, text in calls if not isinstance(text, ast.Constant))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (event := _EVENT.match(node.value)):
            written = event[1]
            names = _NAMES[module.relative_to(ROOT).as_posix(), written] if "%" in written else (written,)
            level = direct.get(id(node)) or _later_level(node, without_text)
            yield from ((name, level) for name in names)


def _later_level(text: ast.Constant, calls: Sequence[tuple[int, str]]) -> str:
    """Return the level of a text in a variable: that of the next call without a text in place.

    A text that is kept may be logged further up. Lines of other clients have no call: a filter rewrites them as
    warnings.
    """
    after = [level for line, level in calls if line > text.lineno]
    before = [level for _, level in calls]
    return (after or before or ["warning"])[0]


def _calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the level and the text of each call of a logger."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logger"), attr=method), args=[*args]) if (
                args and method in _LEVELS
            ):
                yield _LEVELS[method], args[1] if method == "log" else args[0]
