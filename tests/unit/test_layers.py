"""The house's floors: who may import whom, read from the imports themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "errors": set(),
    "references": {"errors"},
    "formats": {"errors"},
    "table": {"errors", "references"},
    "schema_evolution": {"errors", "formats", "table"},
    "ingest": {"errors", "references", "formats"},
    "pipelines": {"errors", "references", "formats", "ingest", "schema_evolution", "table"},
}
TABLE_FLOORS = [
    {"storage"},
    {"values"},
    {"schema"},
    {"meta"},
    {"files"},
    {"lsm"},
    {"layout", "route"},
    {"read", "write"},
    {"commit"},
    {"maintain"},
    {"catalog", "system", "handle"},
    {"sql"},
    {"cloning", "merging"},
]
PIPELINE_FLOORS = [{"spec"}, {"run", "spark_tables"}, {"observe"}, {"commands"}, {"handle"}]
SPARK_ROOMS = {"pipelines", "ingest/spark.py"}


def modules() -> list[Path]:
    return [path for layer in LAYERS for path in [*ROOT.glob(f"{layer}/**/*.py"), *ROOT.glob(f"{layer}.py")]]


def imports_of(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names += [f"{module}.{alias.name}" for alias in node.names] if module == "penstock" else [module]
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_floors_it_may_know(path: Path) -> None:
    place = path.relative_to(ROOT)
    layer = place.parts[0].removesuffix(".py")
    for name in imports_of(path):
        parts = name.split(".")
        assert parts[0] not in LAYERS or parts[0] == "table", f"{place} imports {name}: write penstock.{name}"
        if parts[0] == "penstock" and len(parts) > 1:
            assert parts[1] == layer or parts[1] in LAYERS[layer], f"{place} may not import {name}"
            if layer == parts[1] == "table" and len(parts) > 2 and len(place.parts) > 1:
                assert_floor(TABLE_FLOORS, place, parts[2])
            if layer == parts[1] == "pipelines" and len(parts) > 2 and len(place.parts) > 1:
                assert_floor(PIPELINE_FLOORS, place, parts[2])
        if parts[0] == "pyspark":
            allowed = layer == "pipelines" or str(place) in SPARK_ROOMS
            assert allowed, f"{place} imports Spark"


def assert_floor(floors: list[set[str]], place: Path, target: str) -> None:
    own = place.parts[1].removesuffix(".py")
    level = {room: number for number, rooms in enumerate(floors) for room in rooms}
    if own not in level or target not in level:
        return
    assert level[target] <= level[own], f"{place} reaches up to {target}"
