"""One workload, through our own reading of the log and through what Debezium, canal and Maxwell recorded of it: the
same tables, but for what those tools are known to lose (losses.json)."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.formats.canal.message import canal_message
from penstock.ingest.mysql.shown_times import in_zone
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, read_chunk
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.schema.type_text import read_type
from penstock.table.values.types import STRING, AtomicType, DataType, Field
from tests.here import run
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

RECORDED = Path(__file__).resolve().parents[2] / "data/cdc-recorded"
LOSSES = json.loads((RECORDED / "losses.json").read_text(encoding="utf-8"))
TABLES = {
    "all_types": ["id"],
    "orders": ["order_id"],
    "two_keys": ["region", "id"],
    "odd name-表": ["the key"],
    "late": ["k"],
    "late2": ["k"],
}
BITS, BIG = {"c_bit8", "c_bit33", "c_bit64"}, read_type("DECIMAL(20, 0)")  # Maxwell has numbers for bits
Rows = dict[tuple[Any, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def mysql_tables(mysql: Playground, tmp_path_factory: pytest.TempPathFactory) -> Sync:
    return ours(mysql, tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def mariadb_tables(mariadb: Playground, tmp_path_factory: pytest.TempPathFactory) -> Sync:
    return ours(mariadb, tmp_path_factory.mktemp("ours"))


def ours(server: Playground, folder: Path) -> Sync:
    server.start_over()
    sync = Sync(server, folder, conf=["database-name=rec"])
    server.run(*statements("workload-1-before.sql"))
    sync.run()
    server.run(*statements("workload-2-during.sql"))
    sync.run()
    return sync


def statements(name: str) -> list[str]:
    lines = (RECORDED / name).read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    found, quoted, start = [], "", 0
    for place, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'`\"":
            quoted = character
        elif character == ";":
            found.append(text[start:place].strip())
            start = place + 1
    return [item for item in found if item]


def lines_of(name: str) -> list[str]:
    return (RECORDED / name).read_text(encoding="utf-8").splitlines()


def differences(
    mine: Sync, folder: Path, value_format: str, lines: Sequence[str], tables: Sequence[str] = tuple(TABLES)
) -> dict[str, dict[str, Any]]:
    """Return the differences of a recording by table: keys of rows that are missing, and columns that
    differ in a row that is. Values without types are read as those of our tables."""
    (folder / "inbox").mkdir(parents=True)
    (folder / "inbox/1.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    warehouse = CatalogSettings.of(f"{folder}/warehouse", {})
    for name in TABLES if value_format == "maxwell-json" else ():
        schema = mine.target(name).store.schema()
        fields = tuple(replace(difference, type=maxwells_type(difference)) for difference in schema.fields)
        warehouse.created(f"ods.{name}", replace(schema, id=0, fields=fields))
    spec = {
        "pipeline": {"name": "recorded"},
        "source": {"type": "files", "path": f"{folder}/inbox", "value.format": value_format},
        "selection": {"including-tables": "|".join(TABLES)},
        "sink": {"catalog": {"warehouse": warehouse.warehouse}, "database": "ods"},
        "errors": {"bad-record": "dead-letter"},
    }
    run(PipelineSpec.model_validate(spec))
    found = {}
    for name in tables:
        key = TABLES[name]
        difference = differing(rows(mine.target(name), key), rows(Table(warehouse.store(f"ods.{name}")), key))
        if difference:
            found[name] = difference
    return found


def maxwells_type(column: Field) -> DataType:
    """Numbers for bits, and base64 for bytes, which nobody says it is: it stays text."""
    if column.name in BITS:
        return BIG
    return STRING if isinstance(column.type, AtomicType) and column.type.root == "VARBINARY" else column.type


def rows(table: Table, key: Sequence[str]) -> Rows:
    return {tuple(row[name] for name in key): row for row in table.scan().to_arrow().to_pylist()}


def differing(mine: Rows, theirs: Rows) -> dict[str, Any]:
    assert theirs.keys() <= mine.keys()
    columns = defaultdict(list)
    for key in sorted(theirs):
        for name, value in theirs[key].items():
            wanted = mine[key].get(name)
            if isinstance(wanted, bytes) and isinstance(value, str):
                value = base64.b64decode(value)
            if wanted != value:
                columns[name].append(key[0])
    absent = [key[0] for key in sorted(mine.keys() - theirs.keys())]
    return ({"absent": absent} if absent else {}) | ({"columns": dict(columns)} if columns else {})


def known(tool: str) -> dict[str, dict[str, Any]]:
    """The listed losses without their reasons."""
    return {
        table: {
            kind: {name: column["rows"] for name, column in found.items()} if kind == "columns" else found["rows"]
            for kind, found in item.items()
        }
        for table, item in LOSSES[tool].items()
    }


@pytest.mark.mysql
def test_canal_reports_the_same_changes_except_its_losses(mysql_tables: Sync, tmp_path: Path) -> None:
    lines = lines_of("canal/mysql-9.7_canal-1.1.7_flat.jsonl")
    assert differences(mysql_tables, tmp_path, "canal-json", lines) == known("canal")


@pytest.mark.mariadb
def test_canal_reports_the_same_changes_of_mariadb_except_its_losses(mariadb_tables: Sync, tmp_path: Path) -> None:
    lines = lines_of("canal/mariadb-10.11_canal-1.1.7_flat.jsonl")
    assert differences(mariadb_tables, tmp_path, "canal-json", lines) == known("canal of mariadb")


WITH_SCHEMAS = "debezium/mysql-9.7_debezium-3.6.1_schemas.jsonl"


def debezium_rows(name: str) -> list[dict[str, Any]]:
    """Messages with a row and a key."""
    records = map(json.loads, lines_of(name))
    return [
        record
        for record in records
        if record["value"] and record.get("key") and "op" in record["value"].get("payload", record["value"])
    ]


def with_schemas(record: dict[str, Any], known_schemas: dict[tuple[str, frozenset[str]], Any]) -> dict[str, Any]:
    """Return the schema of the topic's rows from another recording, for columns that one converter left out."""
    value, key = record["value"], record["key"]
    row = value.get("after") or value["before"]
    return {"schema": known_schemas[record["topic"], frozenset(row)], "payload": value | {"pkNames": list(key)}}


def debezium_messages(name: str) -> list[str]:
    typed = debezium_rows(WITH_SCHEMAS)
    if name == WITH_SCHEMAS:
        found = [
            item["value"] | {"payload": item["value"]["payload"] | {"pkNames": list(item["key"]["payload"])}}
            for item in typed
        ]
    else:
        schemas = {}
        for item in typed:
            payload = item["value"]["payload"]
            schemas[item["topic"], frozenset(payload["after"] or payload["before"])] = item["value"]["schema"]
        found = [with_schemas(row, schemas) for row in debezium_rows(name)]
    return [json.dumps(item, ensure_ascii=False) for item in found]


@pytest.mark.mysql
@pytest.mark.parametrize("name", [WITH_SCHEMAS, "debezium/mysql-9.7_debezium-3.6.1_plain.jsonl"])
def test_debezium_reports_the_same_changes_except_its_losses(mysql_tables: Sync, tmp_path: Path, name: str) -> None:
    assert differences(mysql_tables, tmp_path, "debezium-json", debezium_messages(name)) == known("debezium")


@pytest.mark.mariadb
def test_an_old_debezium_reports_the_same_changes_of_mariadb_except_its_losses(
    mariadb_tables: Sync, tmp_path: Path
) -> None:
    messages = debezium_messages("debezium/mariadb-10.11_debezium-2.7.4-mysql-connector_plain.jsonl")
    assert differences(mariadb_tables, tmp_path, "debezium-json", messages) == known("debezium of mariadb")


@pytest.mark.mariadb
@pytest.mark.parametrize("outputs", ["all-outputs", "default"])
def test_maxwell_reports_the_same_changes_except_its_losses(mariadb_tables: Sync, tmp_path: Path, outputs: str) -> None:
    lines = lines_of(f"maxwell/mariadb-10.11_maxwell-1.22.6_{outputs}.jsonl")
    assert differences(mariadb_tables, tmp_path, "maxwell-json", lines) == known("maxwell")


@pytest.mark.mysql
def test_rows_kept_as_dead_letters_are_read_again_as_they_were(mysql_tables: Sync, tmp_path: Path) -> None:
    batches = read_chunk(mysql_tables.server.address, Chunk("rec", "all_types", 0), SnapshotOptions())
    lines = [
        canal_message(batch, [row]).decode()
        for item in batches
        if (batch := in_zone(item, "UTC"))
        for row in range(len(item))
    ]
    assert len(lines) == 11
    assert differences(mysql_tables, tmp_path, "canal-json", lines, ["all_types"]) == {}
