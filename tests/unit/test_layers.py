"""The house's floors: who may import whom, read from the imports themselves."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "errors": set(),
    "references": {"errors"},
    "row_kinds": set(),
    "storage": {"errors", "references"},
    "formats": {"errors", "row_kinds"},
    "table": {"errors", "references", "row_kinds", "storage"},
    "schema_evolution": {"errors", "row_kinds", "formats", "table"},
    "ingest": {"errors", "references", "row_kinds", "formats", "storage"},
    "pipelines": {"errors", "references", "row_kinds", "storage", "formats", "ingest", "schema_evolution", "table"},
}
# Types that two modules know of each other, and no import at run time.
ONLY_TYPES = {("formats/change.py", "debezium"), ("schema_evolution/policy.py", "drift")}
# From the ground up: a package may import those on its own floor and below.
FLOORS = {
    "table": [
        {"values"},
        {"options"},
        {"schema"},
        {"meta"},
        {"files"},
        {"merge"},
        {"buckets"},
        {"compaction"},
        {"read"},
        {"write", "dynamic_buckets"},
        {"commit"},
        {"operations"},
        {"maintenance"},
        {"usable"},
        {"system"},
        {"handle"},
        {"catalog"},
        {"sql"},
    ],
    "pipelines": [
        {"config", "errors"},
        {"mapping"},
        {"ledger"},
        {"tasks"},
        {"driver", "spark"},
        {"job"},
        {"spark_source"},
        {"monitor"},
        {"api"},
        {"commands"},
    ],
    "ingest": [
        {"source", "batch_barrier", "fetched_chunk", "carried_errors"},
        {"kafka", "files", "spark_stream"},
        {"registry_settings"},
        {"decoded_source"},
        {"mysql"},
    ],
    "schema_evolution": [
        {"types", "date_patterns", "patterns"},
        {"text_casts", "type_changes", "target_names"},
        {"value_casts"},
        {"computed_functions", "expressions", "policy"},
        {"computed_columns", "drift", "masks"},
        {"fit"},
        {"transforms"},
    ],
    "formats": [
        {"change", "json_text", "mysql_type"},
        {"faults", "geometry"},
        {"row_builder"},
        {"json_envelope"},
        {"canal", "debezium", "maxwell", "ogg", "aliyun", "aws_dms", "plain_json"},
    ],
}
SPARK_ROOMS = {"pipelines", "ingest/spark_stream.py"}


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


def test_the_wheel_contains_every_layer_and_nothing_else() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert {name.removesuffix(".py") for name in targets["wheel"]["hooks"]["custom"]["packages"]} == set(LAYERS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_floors_it_may_know(path: Path) -> None:
    place = path.relative_to(ROOT)
    layer = place.parts[0].removesuffix(".py")
    for name in imports_of(path):
        parts = name.split(".")
        assert parts[0] not in LAYERS or parts[0] == "table", f"{place} imports {name}: write penstock.{name}"
        if parts[0] == "penstock" and len(parts) > 1:
            assert parts[1] == layer or parts[1] in LAYERS[layer], f"{place} may not import {name}"
            if layer == parts[1] and layer in FLOORS and len(parts) > 2 and len(place.parts) > 1:
                assert_floor(FLOORS[layer], place, parts[2])
        if parts[0] == "pyspark":
            allowed = layer == "pipelines" or str(place) in SPARK_ROOMS
            assert allowed, f"{place} imports Spark"


def assert_floor(floors: list[set[str]], place: Path, target: str) -> None:
    own = place.parts[1].removesuffix(".py")
    level = {room: number for number, rooms in enumerate(floors) for room in rooms}
    if own == target or own == "__init__" or (str(place), target) in ONLY_TYPES:
        return
    assert own in level, f"{place} is on no floor: add {own} to FLOORS"
    if target in level:  # else a name that the package itself exports
        assert level[target] <= level[own], f"{place} reaches up to {target}"
