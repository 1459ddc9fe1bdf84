"""debezium-avro from a real broker with a schema registry beside it: keys and values in Confluent's wire format."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, DecodeError, SourceError
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.avro import change, converted, envelope, message, optional, value_of, without_logical
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.servers.registry import Registry, running
from tests.sync_flags import spec_of_action

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[3]
RECORDING = ROOT / "tests/data/cdc-recorded/debezium/mysql-9.7_debezium-3.6.1_schemas.jsonl"
KEY = {"type": "record", "name": "Key", "namespace": "s.d.t", "fields": [{"name": "id", "type": "int"}]}
ID = {"name": "id", "type": "int"}
FIRST = envelope(ID, {"name": "name", "type": optional("string")})
WIDER = envelope(ID, {"name": "name", "type": optional("string")}, {"name": "n", "type": "long"})


class Sync:
    def __init__(self, broker: Broker, registry: Registry, folder: Path) -> None:
        self.broker, self.registry, self.folder = broker, registry, folder
        self.topic = broker.topic()
        self.key = registry.register(KEY)

    def send(self, schema: Any, operation: str, before: Any, after: Any) -> None:
        number = self.registry.register(schema)
        key = message(self.key, KEY, {"id": (after or before)["id"]})
        self.broker.send(self.topic, change(number, schema, operation, before, after), key=key)

    def words(self, *flags: str, value_format: str = "debezium-avro", **conf: str) -> list[str]:
        kafka = {
            "topic": self.topic,
            "value.format": value_format,
            "scan.startup.mode": "earliest-offset",
            "properties.bootstrap.servers": self.broker.properties["bootstrap.servers"],
            **({"schema.registry.url": self.registry.url} if value_format == "debezium-avro" else {}),
            **{name.replace("_", "."): value for name, value in conf.items()},
        }
        words = ["--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--until-caught-up", *flags]
        return words + [word for key, value in kafka.items() for word in ("--kafka-conf", f"{key}={value}")]

    def spec(self, *flags: str, **conf: str) -> PipelineSpec:
        return spec_of_action("kafka-sync-database", self.words(*flags, **conf))

    @property
    def warehouse(self) -> CatalogSettings:
        return CatalogSettings.of(f"{self.folder}/warehouse", {})

    def table(self, name: str = "t") -> Table:
        return Table(self.warehouse.store(f"ods.{name}"))

    def rows(self, name: str = "t") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(name).scan().to_arrow().to_pylist()
        return sorted(rows, key=str)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as server:
        yield server


@pytest.fixture
def sync(broker: Broker, registry: Registry, tmp_path: Path) -> Sync:
    return Sync(broker, registry, tmp_path)


def test_a_schema_that_changes_in_the_middle_widens_the_table_and_the_key_record_names_its_key(sync: Sync) -> None:
    sync.send(FIRST, "c", None, {"id": 1, "name": "a"})
    sync.send(FIRST, "c", None, {"id": 2, "name": "b"})
    sync.send(WIDER, "u", {"id": 1, "name": "a", "n": 0}, {"id": 1, "name": "A", "n": 1 << 40})
    sync.send(WIDER, "d", {"id": 2, "name": "b", "n": 0}, None)
    sync.send(FIRST, "c", None, {"id": 3, "name": "a producer that was not restarted"})
    run(sync.spec())
    assert sync.table().primary_keys == ["id"]
    assert sync.rows() == [
        {"id": 1, "name": "A", "n": 1 << 40},
        {"id": 3, "name": "a producer that was not restarted", "n": None},
    ]
    requests = len(sync.registry.asked)
    sync.send(WIDER, "c", None, {"id": 4, "name": "later", "n": 7})
    run(sync.spec())
    assert [row["id"] for row in sync.rows()] == [1, 3, 4]
    assert len(sync.registry.asked) == requests, "schemas never change: they are asked for once a process"


def nested(number: str, *more: dict[str, Any]) -> Any:
    """A schema with a record, a list, a map and a list of records, whose numbers are of this type."""
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": number}, *more]}
    line = {"type": "record", "name": "L", "fields": [{"name": "p", "type": number}, *more]}
    kinds = {
        "r": record,
        "l": {"type": "array", "items": number},
        "m": {"type": "map", "values": number},
        "d": {"type": "array", "items": line},
    }
    return envelope(ID, *({"name": name, "type": optional(kind), "default": None} for name, kind in kinds.items()))


def test_records_lists_and_maps_widen_member_by_member_in_the_middle_of_a_batch(sync: Sync) -> None:
    old, new = nested("int"), nested("long", {"name": "y", "type": optional("string"), "default": None})
    small = {"r": {"x": 1}, "l": [1, 2], "m": {"k": 3}, "d": [{"p": 4}]}
    large = {"r": {"x": 1 << 40, "y": "a"}, "l": [1 << 40], "m": {"k": 1 << 40}, "d": [{"p": 1 << 40, "y": "b"}]}
    sync.send(old, "c", None, {"id": 1, **small})
    run(sync.spec())
    for number, (schema, row) in enumerate([(old, small), (new, large), (old, small)]):
        sync.send(schema, "c", None, {"id": 2 + number, **row})
    run(sync.spec())
    read = {"r": {"x": 1, "y": None}, "l": [1, 2], "m": [("k", 3)], "d": [{"p": 4, "y": None}]}
    wide = {**large, "m": [("k", 1 << 40)]}
    assert sync.rows() == [{"id": 1, **read}, {"id": 2, **read}, {"id": 3, **wide}, {"id": 4, **read}]
    assert sync.table().schema_id == 1


def test_a_schema_id_unknown_to_the_registry_is_a_bad_record(sync: Sync) -> None:
    sync.send(FIRST, "c", None, {"id": 1, "name": "a"})
    sync.broker.send(sync.topic, struct.pack(">bI", 0, 4711) + b"\x02")
    sync.send(FIRST, "c", None, {"id": 2, "name": "b"})
    with pytest.raises(DecodeError, match="the schema registry has no schema 4711") as stopped:
        run(sync.spec())
    assert stopped.value.facts["offset"] == 1
    run(sync.spec("--on-bad-record", "dead-letter"))
    assert [row["id"] for row in sync.rows()] == [1, 2]
    (letter,) = sync.rows("__penstock_dead_letters")
    assert (letter["offset"], letter["raw_value"][:5]) == (1, struct.pack(">bI", 0, 4711))


def test_an_unreachable_registry_stops_the_job_without_bad_records(sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.formats.debezium.schema_registry.PATIENCE", 0.01)
    sync.send(FIRST, "c", None, {"id": 1, "name": "a"})
    sync.registry.stop()
    with pytest.raises(SourceError, match="no schema registry can be reached") as away:
        run(sync.spec("--on-bad-record", "skip"))
    assert away.value.retryable
    assert sync.registry.url in str(away.value)
    sync.registry.start()
    sync.registry.fail = 2  # and for a moment it knows no primary
    run(sync.spec("--on-bad-record", "skip"))
    assert [row["id"] for row in sync.rows()] == [1]


def test_credentials_are_resolved_by_reference_in_tasks(sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    sync.registry.password = "reader:s3cret"
    sync.send(FIRST, "c", None, {"id": 1, "name": "a"})
    with pytest.raises(ConfigError, match="rejected the request") as refused:
        run(sync.spec())
    assert "basic.auth.user.info" in str(refused.value)
    conf = {"schema_registry_basic_auth_user_info": "${REGISTRY_LOGIN}"}
    monkeypatch.setenv("REGISTRY_LOGIN", "reader:s3cret")
    run(sync.spec(**conf))
    assert [row["id"] for row in sync.rows()] == [1]
    # Spark's checkpoint, tables and plans would keep what the description holds.
    assert "s3cret" not in sync.spec(**conf).model_dump_json()


@pytest.mark.spark
def test_the_command_reads_avro_through_spark(sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    sync.registry.password = "reader:s3cret"
    monkeypatch.setenv("REGISTRY_LOGIN", "reader:s3cret")
    sync.send(FIRST, "c", None, {"id": 1, "name": "a"})
    sync.send(WIDER, "c", None, {"id": 2, "name": "b", "n": 2})
    words = sync.words(schema_registry_basic_auth_user_info="${REGISTRY_LOGIN}")
    command = [sys.executable, "-m", "penstock.pipelines.commands.main", "kafka-sync-database", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert [row["n"] for row in sync.rows()] == [None, 2]
    kept = [path for path in sync.folder.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert kept == []
    assert "s3cret" not in done.stderr + done.stdout


def test_a_recorded_database_has_the_same_rows_as_avro_and_as_json(sync: Sync, tmp_path: Path) -> None:
    plain = Sync(sync.broker, sync.registry, tmp_path / "json")
    for line in map(json.loads, RECORDING.read_text().splitlines()):
        key, value = line["key"], line["value"]
        plain.broker.send(plain.topic, text(value), key=text(key))
        sync.broker.send(sync.topic, avro(sync.registry, value), key=avro(sync.registry, key))
    run(sync.spec())
    run(plain.spec(value_format="debezium-json"))
    names = plain.warehouse.tables("ods")
    assert len(names) > 5
    assert sync.warehouse.tables("ods") == names
    for name in (name.partition(".")[2] for name in names):
        assert sync.table(name).primary_keys == plain.table(name).primary_keys
        assert sync.rows(name) == plain.rows(name)


def text(item: Any) -> str | None:
    return None if item is None else json.dumps(item)


def avro(registry: Registry, item: Any) -> bytes | None:
    if item is None:
        return None
    schema = converted(item["schema"])
    return message(registry.register(schema), without_logical(schema), value_of(item["schema"], item["payload"]))
