"""Every declared table option: its declaration, its code, its checks, and what happens with it on a foreign table."""

from __future__ import annotations

import ast
import importlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.spark_source.table_place import TablePlace
from penstock.table.options.catalog import OPTIONS, find
from penstock.table.options.checks import check_given, without_effect
from penstock.table.options.declaration import Effect, Stops, TableOption
from penstock.table.schema.new_schema import create_schema
from penstock.table.sql.queries.session import Session
from tests.cases import each
from tests.source_trees import source_tree

ROOT = Path(__file__).resolve().parents[4]
PACKAGES = ("table", "pipelines", "ingest", "formats", "schema_evolution", "storage")
REFUSED = [option for option in OPTIONS if option.effect is Effect.REFUSED]


def value_of(option: TableOption[object]) -> str:
    """A value that asks for something."""
    given = {"boolean": "false" if option.default == "true" else "true", "integer": "3", "number": "0.35"}
    given |= {"size": "3 mb", "duration": "3 h", "per level": "0:avro", "statistics": "counts"}
    given |= {"text": "something", "names": "id", "column": "id"}
    if option.kind.choices:
        return next((choice for choice in option.kind.choices if choice not in {option.default, *option.harmless}), "")
    return given[option.kind.name]


def key_of(option: TableOption[object]) -> str:
    return re.sub(r"<[^>]*>", "id", option.key)


# declarations


def test_no_key_is_declared_twice() -> None:
    keys = Counter(key for option in OPTIONS for key in (option.key, *option.old_keys))
    assert [key for key, times in keys.items() if times > 1] == []


def test_declarations_are_complete() -> None:
    each((option.key for option in OPTIONS), is_complete)


def is_complete(key: str) -> None:
    option = next(option for option in OPTIONS if option.key == key)
    for text in filter(None, (option.default, *option.harmless, *option.tolerated)):
        option.kind.parse(text)
    assert re.fullmatch(r"[A-Z].*\.", option.meaning)
    assert bool(option.note) == (option.effect is not Effect.ACTS)
    assert option.effect is Effect.REFUSED or option.stops is Stops.SETTING
    assert find(key_of(option)) is option
    assert option.effect is not Effect.REFUSED or option.asks(value_of(option))


# code


def _modules(wanted: Callable[[str], bool]) -> Iterator[tuple[Path, ast.Module]]:
    """The modules of the product outside of the declarations whose text is wanted: to parse all takes half a minute."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.is_relative_to(ROOT / "table" / "options") and wanted(path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT), source_tree(path)


@cache
def _used_options() -> frozenset[str]:
    return frozenset(key for _, tree in _modules(lambda text: "penstock.table.options" in text) for key in _used(tree))


def _used(tree: ast.Module) -> set[str]:
    """Return the keys of the options whose declarations, alone or in a tuple, a module imports and uses."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = [
        getattr(importlib.import_module(node.module), name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock.table.options.")
        for name in node.names
        if name.name in names and name.name.isupper() and node.module is not None
    ]
    options = [option for entry in found for option in (entry if isinstance(entry, tuple) else (entry,))]
    return {option.key for option in options if isinstance(option, TableOption)}


@pytest.mark.slow
def test_every_option_that_acts_is_read_by_code() -> None:
    used = _used_options()
    stored_for_others = {"penstock.<name>", "pipelines.<name>"}  # of users, and of Spark
    acting = {option.key for option in OPTIONS if option.effect is Effect.ACTS}
    assert acting - used - stored_for_others == set()


def test_code_reads_no_option_that_is_declared_to_have_no_effect() -> None:
    used = _used_options()
    without = {option.key for option in OPTIONS if option.effect is not Effect.ACTS}
    assert used & without == {
        "changelog-producer.compaction-interval",  # pipelines make another option of it
        "file-index.<type>.columns",  # the columns must exist all the same
    }


def _texts_as_keys(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts that a module looks up or compares: `x["key"]`, `"key" in x`, `key == "key"`, `x.get("key")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                yield node.lineno, key
            case ast.Compare(left=left, comparators=others):
                for item in (left, *others):
                    for inner in item.elts if isinstance(item, ast.Tuple | ast.Set | ast.List) else (item,):
                        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                            yield node.lineno, inner.value
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str(key)), *_]):
                yield node.lineno, key
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.JoinedStr(values=values), *_]):
                yield (
                    node.lineno,
                    "".join(str(value.value) if isinstance(value, ast.Constant) else "x" for value in values),
                )


# Words that are also something else: a column of a system table, a flag, a key of a file that describes a pipeline.
WORDS = {"branch", "bucket", "comment", "owner", "partition", "path", "primary-key", "type"}
OTHER_KEYS = {
    ("pipelines/commands", "consumer-id"),  # flags of commands
    ("table/meta/avro_blocks.py", "avro.codec"),  # metadata of an Avro file
    ("table/meta/avro_blocks.py", "avro.schema"),
    ("table/sql/ddl/connector_tables.py", "csv.null-literal"),  # an option of Flink's temporary tables
    ("table/sql", "auto-create"),  # a word of CREATE TABLE, which tables do not store
}


def _has_keys(text: str) -> bool:
    """Whether a text in quotes is the key of an option."""
    quoted = {re.sub(r"\{[^}]*\}", "x", found) for found in re.findall(r"\"([^\"\s]+)\"", text)}
    return any(("-" in key or "." in key) and find(key) is not None for key in quoted)


def _string_keyed(path: Path, tree: ast.Module) -> list[str]:
    return [
        f"{path}:{line}: {key}"
        for line, key in _texts_as_keys(tree)
        if key not in WORDS and ("-" in key or "." in key) and find(key) is not None
        if not any(str(path).startswith(place) and key == other for place, other in OTHER_KEYS)
    ]


@pytest.mark.slow
def test_code_reads_options_by_their_declarations_and_not_by_text() -> None:
    assert [found for path, tree in _modules(_has_keys) for found in _string_keyed(path, tree)] == []


@pytest.mark.parametrize(
    "code",
    [
        'options.get("write-only", "false")',
        'schema.options["write-only"]',
        'options.get(f"fields.{name}.distinct")',
        '"write-only" in options',
        'key in {"a", "merge-engine"}',
    ],
)
def test_an_access_by_text_would_be_found(code: str) -> None:
    assert _has_keys(code)
    assert _string_keyed(Path("table/x.py"), ast.parse(code)) != []


# checks


def test_a_value_of_another_type_is_refused_by_name() -> None:
    def is_refused(key: str) -> None:
        with pytest.raises(ConfigError) as wrong:
            create_schema([("id", "INT")], options={key: "?!"}, now=7)
        assert wrong.value.facts["option"] == key

    each((key_of(option) for option in OPTIONS if option.kind.name not in {"text", "names", "column"}), is_refused)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("sort-engine", "bogus", "choices are loser-tree, min-heap"),
        ("read.batch-size", "x", "not a whole number"),
        ("lookup.cache-rows", "x", "not a whole number"),
        ("num-sorted-run.compaction-trigger", "0", "set it to 1 or more"),
        ("compaction.offpeak.start.hour", "24", "set it to 23 or less"),
        ("file.format.per.level", "avro", "write it as 0:avro"),
        ("metadata.stats-mode", "truncate(0)", "truncate"),
        ("partition.mark-done-action", "success-file,custom", "success-file, http-report"),
        ("fields.id.agregate-function", "sum", "is not a table option"),
    ],
)
def test_wrong_values_are_refused(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        check_given({key: text})
    assert message in str(wrong.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("write-mode", "a table without a primary key is an append table"),
        ("connector", "every table here is a Paimon table"),
        ("write-manifest-cache", "no longer has this cache"),
        ("bukcet", "did you mean bucket?"),
    ],
)
def test_an_unknown_option_is_refused_with_its_replacement(key: str, message: str) -> None:
    with pytest.raises(ConfigError) as unknown:
        check_given({key: "append-only"})
    assert message in str(unknown.value)


@pytest.mark.parametrize("door", ["scan", "writer", "overwrite", "compact", "alter", "create", "sql", "spark"])
def test_every_entry_point_checks_its_options(tmp_path: Path, door: str) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", [("id", "INT")])

    def through(options: dict[str, str]) -> object:
        match door:
            case "alter":
                return catalog.alter_table("db.t", [penstock.SetOption(*pair) for pair in options.items()])
            case "create":
                return catalog.create_table("db.new", [("id", "INT")], options=options)
            case "sql":
                hints = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
                return Session(catalog).query(f"SELECT * FROM db.t /*+ OPTIONS({hints}) */")
            case "spark":
                return TablePlace.of({"path": table.path, **options})
        return getattr(table, door)(options=options)

    for options, message in (
        ({"read.batch-size": "x"}, "not a whole number"),
        ({"sort-engine": "bogus"}, "choices are"),
        ({"query-auth.enabled": "true"}, "is not supported"),
        ({"scan.nosuch": "1"}, "option"),
    ):
        with pytest.raises(ConfigError, match=message):
            through(options)
    assert not catalog.table_exists("db.new")


@pytest.mark.parametrize("option", REFUSED, ids=lambda option: option.key)
def test_a_refused_option_says_what_to_do(option: TableOption[object]) -> None:
    with pytest.raises(ConfigError, match="is not supported") as refused:
        check_given({key_of(option): value_of(option)})
    assert option.note in str(refused.value)
    check_given({key_of(option): text for text in (option.default, *option.harmless) if text is not None})


def test_options_are_read_under_their_older_names(tmp_path: Path) -> None:
    for option in OPTIONS:
        for old in option.old_keys:
            assert find(old) is option
    table = penstock.create_table(
        str(tmp_path / "t"),
        [("id", "INT")],
        primary_keys=["id"],
        options={"write.compaction-skip": "true", "bucket": "1"},
    )
    for _ in range(8):
        with table.writer() as writer:
            writer.write(pa.table({"id": pa.array([1], pa.int32())}))
            writer.commit()
    assert {snapshot.commit_kind for snapshot in table.snapshots} == {"APPEND"}


# reports


def test_options_without_effect_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"sink.parallelism": "4", "sort-engine": "loser-tree", "file.block-size": "1 mb"}
    with caplog.at_level(logging.WARNING):
        table = penstock.create_table(str(tmp_path / "t"), [("id", "INT")], options=options)
        for _ in range(2):
            with table.writer() as writer:
                writer.write(pa.table({"id": pa.array([1], pa.int32())}))
                writer.commit()
    messages = [record.getMessage() for record in caplog.records if "options_without_effect" in record.getMessage()]
    assert len(messages) == 1
    assert "sink.parallelism (Spark tasks write" in messages[0]
    assert "file.block-size (" in messages[0]
    assert "sort-engine" not in messages[0]


def test_each_option_without_effect_has_a_note() -> None:
    for option in OPTIONS:
        options = {key_of(option): value_of(option)}
        if option.effect is Effect.ACTS or value_of(option) in option.harmless:
            assert without_effect(options) == {}
        elif value_of(option):
            assert without_effect(options) == {key_of(option): option.note}


# tables of other engines


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> penstock.Table:
    table = penstock.create_table(str(tmp_path_factory.mktemp("plain") / "t"), [("id", "INT")])
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32())}))
        writer.commit()
    return table


@pytest.mark.parametrize("option", REFUSED, ids=lambda option: option.key)
def test_a_table_with_a_refused_option_allows_the_operations_it_does_not_affect(
    plain: penstock.Table, option: TableOption[object]
) -> None:
    file = Path(plain.path) / "schema" / "schema-0"
    before = file.read_text()
    try:
        node = json.loads(before)
        node["options"] = {key_of(option): value_of(option)}
        file.write_text(json.dumps(node))
        table = penstock.open_table(plain.path)
        if option.stops is Stops.READING:
            with pytest.raises(ConfigError, match="cannot be read here"):
                table.scan().to_arrow()
        else:
            assert table.scan().to_arrow()["id"].to_pylist().count(1) >= 1
        if option.stops is Stops.SETTING:
            with table.writer() as writer:
                writer.write(pa.table({"id": pa.array([2], pa.int32())}))
                writer.commit()
        else:
            with pytest.raises(ConfigError, match=r"cannot be (read|written) here"):
                table.writer()
    finally:
        file.write_text(before)
