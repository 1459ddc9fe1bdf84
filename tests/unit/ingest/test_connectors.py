"""The connector contract: what each connector declares, and that pipelines know no kind of source or format by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from penstock.errors import ConfigError
from penstock.extensions import Extensions
from penstock.formats import FORMATS
from penstock.formats.change import SourceSchema
from penstock.ingest.connector import Capabilities, Connector, SourceConfig
from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.connectors import CONNECTORS, connector_named, only_types
from penstock.storage.state_folder import StateFolder
from tests.source_trees import source_tree

ROOT = Path(__file__).resolve().parents[3]
# Where the name of a source or a format is not a test for it.
NAMED = {
    "pipelines/ledger/checkpoint_folder.py": "the folders that checkpoints of earlier versions have",
}
# `table` is a word of every report, and its package is none of ingest/.
TYPES = set(CONNECTORS.built_in) - {"table"}
CLASSES = {type(CONNECTORS.find(name)).__name__.replace("Connector", "Config") for name in TYPES}
PATHS = [path for path in ROOT.glob("pipelines/**/*.py") if str(path.relative_to(ROOT)) not in NAMED]


def kinds_named(tree: ast.AST) -> Iterator[str]:
    """Yield each import of one kind's modules, and each comparison with the name of a source type or a format."""
    packages = tuple(f"penstock.ingest.{name}" for name in TYPES)
    actions = {f"{name}-sync-{form}" for name in TYPES for form in ("table", "database")}
    names = TYPES | set(FORMATS.built_in) - {"json"}  # the name of a format of logs and of output too
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("penstock.ingest."):
                if module.split(".")[2] in TYPES:
                    yield f"line {node.lineno}: import of {module}"
            case ast.Compare() | ast.MatchValue() | ast.Set():
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Constant) and inner.value in names:
                        yield f"line {node.lineno}: comparison with {inner.value!r}"
            case ast.Constant(value=str(text)) if text in actions or text.startswith(packages):
                yield f"line {node.lineno}: {text!r}"
            case ast.Dict(keys=keys):
                for key in keys:
                    if isinstance(key, ast.Constant) and key.value in TYPES - {"files"}:  # a word of many reports
                        yield f"line {node.lineno}: a table by kinds of sources, with {key.value!r}"
            case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=str(start))]):
                if start.strip() and any(name.startswith(start) for name in names):
                    yield f"line {node.lineno}: startswith({start!r})"
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                if {item.id for item in ast.walk(kind) if isinstance(item, ast.Name)} & CLASSES:
                    yield f"line {node.lineno}: isinstance of a kind of source"


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_pipelines_call_the_connector_instead_of_testing_for_a_kind(path: Path) -> None:
    assert list(kinds_named(source_tree(path))) == []


@pytest.mark.parametrize(
    "code",
    [
        "from penstock.ingest.mysql.source import MySqlSource",
        "if spec.source.type != 'kafka': ...",
        "x = spec.source.type in {'kafka', 'files'}",
        "isinstance(spec.source, MySqlConfig)",
        "readers = {'kafka': kafka_values, 'mysql': mysql_values}[kind]",
        "commands = ['demo', 'postgres-sync-table']",
        "import_module('penstock.ingest.kafka.source')",
        "value_format.startswith('debezium')",
        "match kind:\n    case 'canal-json': ...",
    ],
)
def test_a_test_for_a_kind_is_found(code: str) -> None:
    assert list(kinds_named(ast.parse(code)))


def test_places_that_name_kinds_exist() -> None:
    assert [place for place in NAMED if not list(kinds_named(source_tree(ROOT / place)))] == []


@pytest.mark.parametrize("name", CONNECTORS.built_in)
def test_connector_declares_what_its_section_has(name: str) -> None:
    connector = connector_named(name)
    assert connector.name == name
    assert get_args(connector.config.model_fields["type"].annotation) == (name,)
    keys = {field.alias for field in connector.config.model_fields.values()}
    assert connector.references <= keys


def test_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown source type 'kafak'") as caught:
        connector_named("kafak")
    assert (
        caught.value.hint
        == "did you mean kafka? the types are kafka, files, mysql, postgres, pulsar, mongodb and table"
    )


def test_hint_names_the_types_with_a_capability() -> None:
    assert only_types("rereads_parts") == "sources of type mysql, postgres can"
    assert only_types("rereads_tables") == "sources of type mysql, postgres, mongodb, table can"


class _Silent(Connector[SourceConfig]):
    name = "silent"
    config = SourceConfig

    def open(self, config: SourceConfig, request: SourceRequest) -> Any:
        raise AssertionError("none of the defaults opens the source")


class _WithoutCapture(Connector[SourceConfig]):
    """Declares that it describes tables, and has one of the two methods for that."""

    name = "half"
    config = SourceConfig
    capabilities = Capabilities(describes_tables=True)

    def open(self, config: SourceConfig, request: SourceRequest) -> Any:
        raise AssertionError("a connector that is not complete is not opened")

    def tables(self, config: SourceConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        return []


def test_capability_without_its_methods_is_found_when_the_connector_is_looked_up() -> None:
    extensions: Extensions[Connector[Any]] = Extensions(
        CONNECTORS.group, Connector, {"half": _WithoutCapture()}, check=CONNECTORS.check
    )
    with pytest.raises(ConfigError, match="the connector half does not implement `capture`") as caught:
        extensions.find("half")
    assert caught.value.facts == {"connector": f"{__name__}._WithoutCapture"}
    assert caught.value.hint == (
        "define capture() in _WithoutCapture, or do not declare Capabilities(describes_tables=True)"
    )


@pytest.mark.parametrize(
    ("declared", "method"),
    [
        ({"url_schemes": frozenset({"half"})}, "draft"),
        ({"capabilities": Capabilities(reads_flink_cdc=True)}, "from_flink_cdc"),
    ],
)
def test_declared_forms_of_configuration_need_their_methods(declared: dict[str, object], method: str) -> None:
    half = type("_WithoutForm", (_Silent,), declared)()
    extensions: Extensions[Connector[Any]] = Extensions(
        CONNECTORS.group, Connector, {"silent": half}, check=CONNECTORS.check
    )
    with pytest.raises(ConfigError, match=f"the connector silent does not implement `{method}`"):
        extensions.find("silent")


@pytest.mark.parametrize("method", ["tables", "capture"])
def test_source_that_describes_no_tables_says_so_by_name(method: str) -> None:
    request = SourceRequest(state=StateFolder("/state"), snapshot_requests=StateFolder("/requests"))
    with pytest.raises(ConfigError, match=f"the connector silent does not implement `{method}`"):
        getattr(_Silent(), method)(SourceConfig(type="silent"), request)


def test_defaults_suit_a_source_of_messages() -> None:
    silent, config = _Silent(), SourceConfig(type="silent")
    request = SourceRequest(state=StateFolder("/state"), snapshot_requests=StateFolder("/requests"))
    assert silent.sampler(config, request) is None
    assert silent.resume_point(config, request, {"next": 1}) is None
    assert silent.comparable(config, request) is None
    assert (silent.warnings(config), silent.estimates(config, request), silent.readers(config)) == ([], {}, None)
    assert silent.keyless(config) == "append"
    with pytest.raises(ConfigError, match="a source of type silent always starts with the existing data"):
        silent.starting_at(config, "latest")
