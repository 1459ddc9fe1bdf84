"""The order of the packages and modules, their names, and the folders of their tests, read from the source itself."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.cases import each
from tests.source_trees import source_nodes

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "__main__": {"pipelines"},
    "errors": set(),
    "byte_buffers": {"errors"},
    "http_opener": set(),
    "json_answers": set(),
    "late_pandas": set(),
    "local_times": set(),
    "extensions": {"errors", "late_pandas"},
    "references": {"errors"},
    "row_kinds": set(),
    "settings": {"errors", "references"},
    "table_pattern": {"errors"},
    "storage": {"errors", "references"},
    "formats": {"byte_buffers", "errors", "extensions", "http_opener", "json_answers", "row_kinds"},
    "table": {
        "byte_buffers",
        "errors",
        "extensions",
        "http_opener",
        "json_answers",
        "late_pandas",
        "local_times",
        "references",
        "row_kinds",
        "storage",
    },
    "schema_evolution": {"errors", "late_pandas", "local_times", "row_kinds", "table_pattern", "formats", "table"},
    "ingest": {
        "byte_buffers",
        "errors",
        "extensions",
        "http_opener",
        "json_answers",
        "local_times",
        "references",
        "row_kinds",
        "settings",
        "table_pattern",
        "formats",
        "storage",
    },
    "pipelines": {
        "errors",
        "http_opener",
        "late_pandas",
        "references",
        "row_kinds",
        "settings",
        "storage",
        "table_pattern",
        "formats",
        "ingest",
        "schema_evolution",
        "table",
    },
}
# From the ground up: a module or package may import those on its own floor and below. All must be on a floor.
FLOORS = {
    "storage": [
        {"base", "environment", "options", "object_store_errors", "private_folder", "synced_file"},
        {"conditional_create", "object_store_client"},
        {"catalog_options"},
        {"local", "object_store", "hdfs"},
        {"open"},
        {"state_folder"},
    ],
    "table": [
        {"errors"},
        {"values"},
        {"options", "orc_metadata"},
        {"schema"},
        {"meta"},
        {"files"},
        {"merge"},
        {"buckets"},
        {"compaction"},
        {"read"},
        {"lookup"},
        {"write", "dynamic_buckets"},
        {"metastore"},
        {"iceberg"},
        {"commit"},
        {"operations"},
        {"description"},
        {"maintenance"},
        {"usable", "option_needs"},
        {"system"},
        {"handle"},
        {"catalog"},
        {"sql"},
    ],
    "table/sql": [
        {"grammar"},
        {"queries"},
        {"dml"},
        {"ddl", "streams"},
        {"procedures", "session_options"},
        {"listings", "word_completion"},
        {"interpreter"},
    ],
    "table/sql/procedures": [
        {"procedure"},
        {"compaction_procedures", "file_procedures", "merge_procedure", "snapshot_procedures", "tag_procedures"},
        {"procedure_calls"},
    ],
    "pipelines": [
        {"config", "errors"},
        {"mapping"},
        {"table_source", "ledger"},
        {"tasks"},
        {"driver", "spark"},
        {"job"},
        {"spark_source"},
        {"spark_cdc"},
        {"spark_catalog"},
        {"spark_streams"},
        {"monitor"},
        {"api"},
        {"commands"},
    ],
    "ingest": [
        {"source", "carried_errors", "patience", "sync_actions", "freshness"},
        {"batch_pace", "fetched_messages", "source_waits"},
        {"decoded_source", "deferred_ranges", "paired_messages", "spark_admission", "spark_stream", "source_draft"},
        {"connector_requests", "freshness_source", "joined_ranges"},
        {"connector_answers"},
        {"connector"},
        {"database", "messages"},
        {"kafka", "pulsar", "files", "mysql", "postgres", "mongodb"},  # SOURCES
        {"connectors", "preloaded"},
    ],
    "ingest/database": [
        {
            *("buffers", "findings", "past_rows", "shared_targets", "skipped_parts", "sql_conditions", "table_parts"),
            *("unordered_deletes", "action_options", "kept_connections", "frame_chains"),
        },
        {"cells", "progress", "reachability", "settings"},
        {"nothing_captured", "requested_tables"},
        {"connector", "planner", "requested_resets", "source"},
    ],
    "ingest/messages": [
        {"actions", "client_log", "config", "trust"},
        {"schema_registry_settings"},
        {"connector"},
    ],
    "ingest/pulsar": [
        {"option_names"},
        {"actions", "config", "ids", "position", "topics"},
        {"errors", "properties", "settings"},
        {"admin", "answers", "client"},
        {"cluster", "partition_reader"},
        {"lost_messages", "read"},
        {"source"},
        {"connector"},
    ],
    "ingest/mysql": [
        {"actions", "position", "errors", "config"},
        {"definition", "shown_times", "table_choice"},
        {"server", "values"},
        {"ddl"},
        {"binlog"},
        {"snapshot"},
        {"settings", "offsets", "generated_values"},
        {"read_range", "captured_tables", "idle_position", "whole_table_ddl", "first_position", "emptied_tables"},
        {"recorded_history", "logged_ddl_rules", "lone_commits"},
        {"unlogged_columns", "resumed_progress"},
        {"planner"},
        {"source"},
        {"connector"},
    ],
    "ingest/mongodb": [
        {"actions", "errors", "config", "bson"},
        {"server"},
        {"rows"},
        {"spellings"},
        {"snapshot", "log"},
        {"settings", "offsets"},
        {"planner", "read_range"},
        {"source"},
        {"connector"},
    ],
    "ingest/postgres": [
        {"received", "actions", "errors", "config"},
        {"relation", "values"},
        {"server"},
        {"snapshot"},
        {"settings"},
        {"log"},
        {"captured_tables", "offsets", "table_as_of"},
        {"key_changes", "older_definitions"},
        {"definition_change"},
        {"altered_tables", "kept_sample", "log_end", "log_format"},
        {"altered_publication", "gone_partitions"},
        {"read_range"},
        {"planner"},
        {"source"},
        {"connector"},
    ],
    "schema_evolution": [
        {"types", "date_patterns"},
        {"changed_values", "exact_texts", "text_casts", "text_values", "type_verdicts", "target_names"},
        {"list_casts", "value_texts"},
        {"value_casts", "wide_types"},
        {"computed_arguments", "computed_times", "computed_functions", "expressions", "drift_policy"},
        {"computed_columns", "drift", "masks"},
        {"fit", "update_images"},
        {"expression_columns", "source_conditions"},
        {"transforms", "soft_deletes", "row_versions"},
        {"version_chain", "row_conditions"},
        {"filter_language"},
        {"expectations"},
    ],
    "formats": [
        {"change", "exact_decimals", "json_text", "mysql_type", "resemblance"},
        {"message_format", "json_bytes", "demand", "freed_memory"},
        {"faults", "geometry", "text_groups", "unsent_values"},
        {"row_builder", "joined_batches"},
        {"json_envelope", "layouts"},
        {"canal", "debezium", "maxwell", "ogg", "aliyun", "aws_dms", "plain_json"},
        {"row_message"},
    ],
}
SOURCES = {"kafka", "pulsar", "files", "mysql", "postgres", "mongodb"}
SPARK_ROOMS = {"pipelines", "ingest/spark_admission.py", "ingest/spark_stream.py"}
# Words in -ing that are nouns of the trade.
NOUNS = {"encoding", "hashing", "mapping", "pruning", "tracing", "tracking"}
UNIT = ROOT / "tests" / "unit"
TESTS = sorted(UNIT.rglob("test_*.py"))
# Tests of no single module, and why.
CROSSING = {
    "test_cases.py": "cases that are one test",
    "test_advice.py": "what errors of all packages tell a user to do",
    "test_decimal_digits.py": "numbers in texts, wherever they are read",
    "test_log_events.py": "the texts of all logged lines",
    "formats/test_fuzz.py": "damaged messages of every format",
    "formats/test_untyped.py": "what all formats without declared types have in common",
    "pipelines/test_odd_types.py": "a message from decoding to the dead-letter table",
    "pipelines/test_odd_values.py": "a value from each format to the table",
    "pipelines/test_paimon_samples.py": "messages from flags to tables, with the results of Paimon",
    "pipelines/test_planted_secrets.py": "secrets in all that a pipeline writes",
    "table/dynamic_buckets/test_moving_key_compactions.py": "compactions of tables whose keys move between partitions",
    "table/dynamic_buckets/test_moving_key_expiry.py": "records that expire in tables whose keys move",
    "table/files/test_round_trips.py": "writer and reader of each file format",
    "table/meta/test_golden_metadata.py": "all metadata files that Java Paimon and pypaimon wrote",
    "table/sql/test_as_flink_merges_do.py": "rows of the same key with the results that Paimon has",
    "table/sql/test_as_flink_reads_do.py": "reads, streams and procedures with the results that Paimon has",
    "table/sql/test_as_flink_schemas_do.py": "changes of columns with the results that Paimon has",
    "table/sql/test_as_flink_sql_does.py": "statements of Flink SQL with the results that Paimon has",
    "table/sql/test_forms.py": "every form of statement runs, or is refused with its place",
    "table/sql/test_quoted_names.py": "names in quotes in all statements",
    "table/sql/streams/test_refusals.py": "what cannot be a stream is refused with its place",
    "table/operations/test_rewrites.py": "operations that rewrite data files, and what they conflict with",
    "table/read/test_failing_store.py": "failures of a store in reads and commits",
    "table/read/test_random_expressions.py": "conditions in scans, datasets and counts, with the results of Arrow",
    "table/test_extreme_arguments.py": "arguments of all public functions of a catalog and a table",
    "table/test_many_columns.py": "the cost of operations of a table, by its number of columns",
    "table/test_many_names.py": "the requests of operations of a table, by its number of tags, branches and snapshots",
    "table/test_many_partitions.py": "the cost of operations of a table, by its number of partitions",
    "table/test_names_and_paths.py": "names of tables, partitions and branches wherever they become paths",
    "table/test_walkthrough.py": "the life of a table, file by file",
    "table/write/test_memory_limits.py": "the memory of writes and compactions, in processes of their own",
    "test_busy.py": "tests/busy.py",
    "test_benchmarks.py": "benchmarks.all, and the page that it writes",
    "test_code_from_data.py": "the whole source",
    "test_deployment.py": "files for deployments",
    "test_docs.py": "the documentation",
    "test_import.py": "the import of the package",
    "test_install_hints.py": "hints of errors in the whole source",
    "test_invariants.py": "tests/invariants",
    "test_layers.py": "the whole source",
    "test_notebook.py": "the notebook of the documentation",
    "test_relations.py": "tests/golden/relations.py",
    "test_shop_stream.py": "the shop of benchmarks and demo",
    "test_mutants.py": "tests/mutants/",
    "test_nightly.py": "tests/nightly.py",
    "test_captured_logs.py": "tests/conftest.py",
    "test_test_order.py": "tests/conftest.py",
    "test_whole_run.py": "tests/whole_run.py",
    "test_patched_names.py": "names that tests replace in modules",
    "test_sbom.py": "tests/sbom.py",
    "test_sim_store.py": "tests/simulation/store.py",
    "test_strategies.py": "tests/strategies.py",
    "test_launch.py": "tests/servers/launch.py",
    "test_waiting.py": "tests/waiting.py, and the times in all tests",
    "test_wheel.py": "the wheel",
    "test_words.py": "texts of the whole source",
}


def modules() -> list[Path]:
    return [path for layer in LAYERS for path in [*ROOT.glob(f"{layer}/**/*.py"), *ROOT.glob(f"{layer}.py")]]


@cache
def imports_of(path: Path) -> list[str]:
    names = []
    for node in source_nodes(path):
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


# The tests of all modules are one each: as thousands, they cost more than what they look at.
def test_modules_import_only_allowed_floors() -> None:
    each(modules(), imports_only_allowed_floors)


def imports_only_allowed_floors(path: Path) -> None:
    place = path.relative_to(ROOT)
    layer = place.parts[0].removesuffix(".py")
    for name in imports_of(path):
        parts = name.split(".")
        assert parts[0] not in LAYERS or parts[0] == "table", f"{place} imports {name}: write penstock.{name}"
        if parts[0] == "penstock" and len(parts) > 1:
            assert parts[1] == layer or parts[1] in LAYERS[layer], f"{place} may not import {name}"
            for package in ("/".join(place.parts[:depth]) for depth in range(1, len(place.parts))):
                if package in FLOORS:
                    assert_floor(package.split("/"), FLOORS[package], place, parts[1:])
        if parts[0] == "pyspark":
            allowed = layer == "pipelines" or str(place) in SPARK_ROOMS
            assert allowed, f"{place} imports Spark"


def test_sources_are_the_packages_of_one_floor() -> None:
    assert SOURCES in FLOORS["ingest"]


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_no_source_imports_another(source: str) -> None:
    """Code that two sources share is in ingest/, ingest/database or ingest/messages."""
    others = tuple(f"penstock.ingest.{other}." for other in SOURCES - {source})
    for path in (ROOT / "ingest" / source).rglob("*.py"):
        found = [name for name in imports_of(path) if f"{name}.".startswith(others)]
        assert not found, f"{path.relative_to(ROOT)} imports another source"


def assert_floor(package: list[str], floors: list[set[str]], place: Path, target: list[str]) -> None:
    depth = len(package)
    if list(place.parts[:depth]) != package or target[:depth] != package or len(target) == depth:
        return
    own, other = place.parts[depth].removesuffix(".py"), target[depth]
    level = {module: number for number, modules in enumerate(floors) for module in modules}
    if own not in {other, "__init__"} and other in level:  # else a name that the package itself exports
        assert level[other] <= level[own], f"{place} reaches up to {other}"


@pytest.mark.parametrize("package", FLOORS)
def test_every_module_of_a_package_is_on_one_floor(package: str) -> None:
    on_floors = [name for floor in FLOORS[package] for name in floor]
    below = [path for path in (ROOT / package).iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))]
    assert sorted(on_floors) == sorted(path.stem for path in below if path.stem not in {"__init__", "__pycache__"})


def test_every_package_has_floors() -> None:
    assert {layer for layer in LAYERS if (ROOT / layer).is_dir()} <= FLOORS.keys()


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type checkers and inside functions count too: what they hide is a circle all the same."""
    places = {".".join(("penstock", *path.relative_to(ROOT).with_suffix("").parts)): path for path in modules()}
    places = {name.removesuffix(".__init__"): path for name, path in places.items()}
    needs = {name: modules_imported(path, places) - {name} for name, path in places.items()}
    while free := {name for name, needed in needs.items() if not needed}:
        needs = {name: needed - free for name, needed in needs.items() if name not in free}
    # What is left is in a circle or imports one: leave out those that nothing left imports.
    while idle := needs.keys() - {name for needed in needs.values() for name in needed}:
        needs = {name: needed for name, needed in needs.items() if name not in idle}
    assert needs == {}


def modules_imported(path: Path, places: Mapping[str, Path]) -> set[str]:
    names = set()
    for node in source_nodes(path):
        if isinstance(node, ast.ImportFrom):
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & places.keys()
            names |= submodules or {node.module or ""}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & places.keys()


def test_modules_are_named_by_nouns() -> None:
    gerunds = [path.relative_to(ROOT) for path in modules() if path.stem.endswith("ing")]
    found = {str(place) for place in gerunds if place.stem.rpartition("_")[2] not in NOUNS}
    assert found == set(), "name a module after the thing that it contains"


def test_unit_tests_are_named_after_a_module_beside_others_of_its_package() -> None:
    """tests/unit/<package>/test_<module>.py, or test_<module>_<topic>.py."""
    each(TESTS, is_named_after_a_module)


def is_named_after_a_module(test: Path) -> None:
    place = test.relative_to(UNIT)
    package = ROOT / place.parent
    if str(place) in CROSSING:
        return
    assert package.is_dir(), f"{package.relative_to(ROOT)} is no package: move {place} to the package that it tests"
    subject = test.stem.removeprefix("test_")
    names = {package.name, *(path.stem for path in package.iterdir())}
    assert any(f"{subject}_".startswith(f"{name}_") for name in names), f"{place}: no module {subject}, see CROSSING"


def test_tests_that_cross_modules_exist() -> None:
    assert CROSSING.keys() <= {str(test.relative_to(UNIT)) for test in TESTS}


def test_only_the_catalog_computes_paths_of_tables() -> None:
    each(modules(), leaves_paths_to_the_catalog)


def leaves_paths_to_the_catalog(path: Path) -> None:
    place, nodes = str(path.relative_to(ROOT)), source_nodes(path)
    folders = [text for text in code_texts(nodes) if text.endswith(".db") or ".db/{" in text]
    assert not folders or place == "table/meta/paths.py", f"{place} builds the folder of a database: {folders}"
    kinds = [name for name in imports_of(path) if name.startswith("penstock.table.catalog.file_catalog")]
    assert not kinds or place.startswith("table/catalog/"), f"{place} knows a kind of catalog: ask Catalog"
    opens = any(is_table_open(node.func) for node in nodes if isinstance(node, ast.Call))
    assert not opens or place.startswith("table/"), f"{place} opens a table by its path: ask the catalog"


def is_table_open(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="TableStore"), attr="open"):
            return True
    return False


def code_texts(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the texts of a module; of an f-string its constant parts, with braces in place of values."""
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in node.values}
    texts = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
    ]
    return texts + [
        "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values) for node in joined
    ]
