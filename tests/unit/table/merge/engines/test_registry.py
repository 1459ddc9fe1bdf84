"""Merge engines and changelog producers are values: code asks their properties and compares none of them."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.merge.engines.registry import ENGINES, merge_engine, merge_spec
from penstock.table.options.changelogs import ChangelogProducer
from penstock.table.options.merge_engines import MERGE_ENGINE
from penstock.table.options.table_options import TableOptions
from tests.source_trees import source_tree
from tests.unit.table.merge.tables import schema_of

ROOT = Path(__file__).resolve().parents[5]
OWNERS = ("table/merge/engines", "table/options")


def test_every_choice_of_the_option_is_an_engine() -> None:
    assert set(ENGINES) == set(MERGE_ENGINE.kind.choices)
    assert {engine.name: engine for engine in ENGINES.values()} == ENGINES


@pytest.mark.parametrize(
    ("text", "name"), [(None, "deduplicate"), ("Partial_Update", "partial-update"), (" first-row ", "first-row")]
)
def test_the_option_names_the_engine(text: str | None, name: str) -> None:
    options = TableOptions({} if text is None else {"merge-engine": text})
    assert merge_engine(options).name == name


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
def test_the_properties_of_an_engine_agree_with_each_other(engine: object) -> None:
    found = ENGINES[getattr(engine, "name", "")]
    assert not (found.newest_wins and found.oldest_wins)
    assert found.keeps_rows_whole == (found.newest_wins or found.oldest_wins)
    assert not (found.accepts_deletes and found.removes_by)
    assert not (found.forgives_replay and found.needs_before_images)


def test_the_spec_of_a_schema_is_created_once() -> None:
    schema = schema_of({"k": "INT NOT NULL", "a": "INT"}, ("k",), options={"merge-engine": "aggregation"})
    assert merge_spec(schema) is merge_spec(schema)


def test_an_engine_is_pickled_for_tasks() -> None:
    for engine in ENGINES.values():
        assert pickle.loads(pickle.dumps(engine)) == engine


@pytest.mark.parametrize(
    ("engine", "options", "deletes"),
    [
        ("deduplicate", {}, True),
        ("first-row", {}, False),
        ("aggregation", {}, False),
        ("aggregation", {"aggregation.remove-record-on-delete": "true"}, True),
        ("aggregation", {"partial-update.remove-record-on-delete": "true"}, False),
        ("partial-update", {}, False),
        ("partial-update", {"partial-update.remove-record-on-delete": "true"}, True),
        (
            "partial-update",
            {"fields.a.sequence-group": "b", "partial-update.remove-record-on-sequence-group": "a"},
            True,
        ),
    ],
)
def test_deletes_are_accepted_by_the_engine_or_by_its_option(
    engine: str, options: dict[str, str], deletes: bool
) -> None:
    columns = {"k": "INT NOT NULL", "a": "INT", "b": "INT"}
    schema = schema_of(columns, ("k",), options={"merge-engine": engine, **options})
    assert merge_spec(schema).accepts_deletes is deletes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changelog-producer": "input"}, "cannot have changelog-producer = input"),
        ({"changelog-producer": "full-compaction"}, "cannot have changelog-producer = full-compaction"),
        ({"deletion-vectors.enabled": "true"}, "cannot have deletion vectors"),
        ({"sequence.field": "a"}, "does not support sequence.field"),
    ],
)
def test_first_row_refuses_options_that_contradict_it(tmp_path: Path, options: dict[str, str], message: str) -> None:
    catalog = Catalog(str(tmp_path))
    catalog.create_database("db")
    columns = [("k", "INT NOT NULL"), ("a", "INT")]
    with pytest.raises(ConfigError, match=message):
        catalog.create_table("db.t", columns, primary_keys=["k"], options={"merge-engine": "first-row", **options})
    assert not catalog.table_exists("db.t")


# comparisons


def _names() -> set[str]:
    words = {"lookup", "input", "none"}  # of many other meanings too
    return {*ENGINES, *ChangelogProducer} - words


def _compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts that code compares, matches or looks up."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                parts: list[ast.AST] = [left, *others]
            case ast.MatchValue(value=value):
                parts = [value]
            case ast.Dict(keys=keys):
                parts = [key for key in keys if key is not None]
            case _:
                continue
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.lineno, inner.value
                if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) in {"ChangelogProducer", "Engine"}:
                    yield inner.lineno, inner.attr


def _comparisons(path: Path, tree: ast.AST) -> list[str]:
    members = {member.name for member in ChangelogProducer}
    return [f"{path}:{line}: {text}" for line, text in _compared(tree) if text in _names() or text in members]


@pytest.mark.slow
def test_only_engines_and_declarations_compare_engines_and_producers() -> None:
    found = [
        place
        for package in ("table", "pipelines")
        for path in sorted((ROOT / package).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(OWNERS)
        for place in _comparisons(path.relative_to(ROOT), source_tree(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        'engine == "first-row"',
        "producer is ChangelogProducer.INPUT",
        'producer in {"none", "full-compaction"}',
        'match engine:\n    case "aggregation":\n        pass',
        'removes = {"partial-update": True}[engine]',
    ],
)
def test_a_comparison_would_be_found(code: str) -> None:
    assert _comparisons(Path("table/x.py"), ast.parse(code)) != []
