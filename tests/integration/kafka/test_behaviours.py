"""The known behaviour of Paimon's Kafka actions, message by message through a real broker.

The cases that have recorded messages are in test_kafka_sync; what flags do to names and startup is in test_kafka_flags.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError, SchemaConflict
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.samples import check, samples

pytestmark = pytest.mark.kafka

MakeSync = Callable[[str], Sync]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> MakeSync:
    return lambda value_format: Sync(broker, tmp_path, value_format)


def canal(kind: str, table: str, types: dict[str, str] | None, *rows: dict[str, Any], **more: Any) -> str:
    head = {"type": kind, "database": "shop", "table": table, "isDdl": False, "ts": 1, "es": 1, "old": None}
    return json.dumps(head | {"pkNames": ["id"], "mysqlType": types, "data": list(rows)} | more)


def ddl(text: str) -> str:
    return canal("ALTER", "t", None, isDdl=True, sql=text, data=None)


def debezium(operation: str, before: Any, after: Any, **more: Any) -> str:
    return json.dumps({"op": operation, "before": before, "after": after, "source": {"db": "d", "table": "t"}, **more})


def declared(after: dict[str, Any], **types: str) -> str:
    columns = [{"field": name, "type": kind, "optional": True} for name, kind in types.items()]
    row = {"type": "struct", "field": "after", "fields": columns}
    payload = json.loads(debezium("c", None, after, pkNames=["id"]))
    return json.dumps({"schema": {"type": "struct", "fields": [row]}, "payload": payload})


def dms(operation: str, **row: Any) -> str:
    names = {"schema-name": "d", "table-name": "t", "record-type": "data", "operation": operation}
    return json.dumps({"data": row, "metadata": names})


def maxwell(**row: Any) -> str:
    return json.dumps({"type": "insert", "database": "d", "table": "t", "ts": 7, "xid": 1, "data": row})


def ogg(operation: str, keys: list[str], **images: Any) -> str:
    head = {"table": "D.T", "op_type": operation, "op_ts": "1970-01-01 00:00:07.000000", "pos": "1"}
    return json.dumps(head | {"primary_keys": keys, **images})


def test_ddl_messages_between_changes_have_no_effect(make: MakeSync, broker: Broker) -> None:  # [1]
    sample = next(item for item in samples() if item.id == "canal/table-schemaevolutionmissingddl")
    sync, topic = make("canal-json"), broker.topic()
    for step in sample.steps:
        for message in step.feed[0][1]:
            broker.send(topic, ddl("ALTER TABLE schema_evolution_1 ADD COLUMN nowhere INT"), message)
        run(sync.spec(topic, *sample.arguments))
        check(sync.table("test_table"), step.tables["test_table"], topic)


@pytest.mark.parametrize("pattern", [False, True], ids=["topic", "topic-pattern"])
def test_one_message_may_add_and_widen_columns_in_one_version(  # [3]
    make: MakeSync, broker: Broker, pattern: bool
) -> None:
    sync, topic = make("canal-json"), broker.topic()
    first = {"id": "BIGINT", "a": "INT", "b": "VARCHAR(10)"}
    broker.send(topic, canal("INSERT", "t", first, {"id": "1", "a": "1", "b": "x"}))
    pattern_or_topic = f"{topic[:-1]}[{topic[-1]}].*" if pattern else topic
    run(sync.spec(pattern_or_topic, "--table", "t"))
    odd = "$% ^,& *("
    more = first | {"a": "BIGINT", "b": "VARCHAR(20)", "c": "INT", odd: "TIMESTAMP", "d": "BIGINT", "e": "DOUBLE"}
    row = {"id": "2", "a": "3000000000", "b": "y" * 15, "c": "2", odd: "2021-09-13 17:37:26", "d": "3", "e": "0.5"}
    broker.send(topic, canal("INSERT", "t", more, row))
    run(sync.spec(pattern_or_topic, "--table", "t"))
    assert sync.columns("t") == [
        *("id BIGINT NOT NULL", "a BIGINT", "b VARCHAR(20)"),
        *("c INT", f"{odd} TIMESTAMP(0)", "d BIGINT", "e DOUBLE"),
    ]
    assert sync.table("t").schema_id == 1
    assert [row["a"] for row in sync.rows("t")] == [1, 3_000_000_000]


def test_a_second_run_without_new_records_changes_nothing(make: MakeSync, broker: Broker) -> None:  # [4]
    sample = next(item for item in samples() if item.id == "canal/table-alltype")
    sync, topic = make("canal-json"), broker.topic()
    broker.send(topic, *sample.steps[0].feed[0][1])
    run(sync.spec(topic, *sample.arguments))
    (name,) = sample.steps[0].tables
    before = sync.table(name).latest_snapshot
    run(sync.spec(topic, *sample.arguments))
    assert sync.table(name).latest_snapshot == before
    assert sync.table(name).schema_id == 0


@pytest.mark.parametrize("flags", [("--table", "t"), ()], ids=["table", "database"])
def test_an_unknown_format_is_refused_at_the_start(make: MakeSync, broker: Broker, flags: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"This format: togg-json is not supported\."):  # [5, 35]
        run(make("togg-json").spec(broker.topic(), *flags))


def test_an_existing_table_without_required_columns_is_refused_with_both_schemas(  # [7]
    make: MakeSync, broker: Broker
) -> None:
    sync, topic = make("canal-json"), broker.topic()
    sync.create("t", [("k", "STRING NOT NULL"), ("v1", "STRING")], ["k"])
    types = {"pt": "INT", "_id": "INT", "v1": "VARCHAR(10)"}
    broker.send(topic, canal("INSERT", "s", types, {"pt": "1", "_id": "1", "v1": "one"}, pkNames=["_id"]))
    with pytest.raises(PenstockError) as refused:
        run(sync.spec(topic, "--table", "t"))
    assert "k STRING NOT NULL" in str(refused.value)
    assert "pt INT, _id INT, v1 VARCHAR(10)" in str(refused.value)


def test_a_start_at_the_latest_offsets_reads_only_later_records(make: MakeSync, broker: Broker) -> None:  # [9]
    sync, topic = make("canal-json"), broker.topic()
    broker.send(topic, *(canal("INSERT", "t", {"id": "INT"}, {"id": str(number)}) for number in (1, 2)))
    run(sync.spec(topic, "--table", "t", startup="latest-offset"))
    broker.send(topic, *(canal("INSERT", "t", {"id": "INT"}, {"id": str(number)}) for number in (3, 4)))
    run(sync.spec(topic, "--table", "t", startup="latest-offset"))
    assert sync.ids("t") == [3, 4]


def test_metadata_columns_keep_their_configured_order(make: MakeSync, broker: Broker) -> None:  # [14]
    sync, topic = make("canal-json"), broker.topic()
    broker.send(topic, canal("INSERT", "t", None, {"id": "1"}), timestamp=1_700_000_000_123)
    names = "topic,partition,offset,timestamp,timestamp_type"
    run(sync.spec(topic, "--table", "t", "--metadata-column", names, "--metadata-column-prefix", "__kafka_"))
    assert sync.columns("t") == [
        *("id STRING NOT NULL", "__kafka_topic STRING", "__kafka_partition INT", "__kafka_offset BIGINT"),
        *("__kafka_timestamp TIMESTAMP(3) WITH LOCAL TIME ZONE", "__kafka_timestamp_type STRING"),
    ]
    (row,) = sync.rows("t")
    assert [row[f"__kafka_{name}"] for name in ("topic", "partition", "offset")] == [topic, 0, 0]
    assert row["__kafka_timestamp"].timestamp() == 1_700_000_000.123
    assert row["__kafka_timestamp_type"] == "CreateTime"


def test_a_deleted_row_is_kept_if_deletes_are_ignored(make: MakeSync, broker: Broker) -> None:  # [16]
    sync, topic = make("canal-json"), broker.topic()
    types, row = {"id": "INT", "v": "INT"}, {"id": "1", "v": "1"}
    broker.send(topic, canal("ROW", "t", types, row), canal("INSERT", "t", types, {"id": "2", "v": "2"}))
    broker.send(topic, canal("UPDATE", "t", types, {"id": "1", "v": "7"}, old=[{"v": "1"}]))
    broker.send(topic, canal("DELETE", "t", types, {"id": "1", "v": "7"}))
    run(sync.spec(topic, "--table", "t", "--table-conf", "ignore-delete=true"))
    assert sync.rows("t") == [{"id": 1, "v": 7}, {"id": 2, "v": 2}]


@pytest.mark.parametrize("waits", [False, True], ids=["from a sample", "into a table over an empty topic"])
def test_case_of_keys_columns_and_functions_is_folded_by_the_catalog(  # [13, 17, 21]
    make: MakeSync, broker: Broker, waits: bool
) -> None:
    sync, topic = make("canal-json"), broker.topic()
    flags = ["--table", "t", "--catalog-conf", "case-sensitive=false", "--computed-column", "_YEAR=year(_DATE)"]
    types = {"ID": "INT", "_DATE": "DATE", "V": "VARCHAR(5)"}
    messages = [{"ID": "1", "_DATE": "2023-03-23", "V": "a"}, {"ID": "2", "_DATE": None, "V": "b"}]
    if waits:
        sync.create("t", [("id", "INT NOT NULL"), ("_date", "DATE"), ("_year", "INT")], ["id"])
        run(sync.spec(topic, *flags))
    broker.send(topic, *(canal("INSERT", "t", types, row, pkNames=["ID"]) for row in messages))
    run(sync.spec(topic, *flags))
    assert [(row["id"], row["_year"], row["v"]) for row in sync.rows("t")] == [(1, 2023, "a"), (2, None, "b")]


def test_a_decimal_without_parameters_has_scale_eighteen(make: MakeSync, broker: Broker) -> None:  # [20]
    sync, topic = make("canal-json"), broker.topic()
    broker.send(topic, canal("INSERT", "t", {"id": "INT", "v": "decimal"}, {"id": "1", "v": "1.2"}))
    run(sync.spec(topic, "--table", "t"))
    assert sync.columns("t")[1] == "v DECIMAL(38, 18)"
    assert str(sync.rows("t")[0]["v"]) == "1.200000000000000000"


@pytest.mark.parametrize(("mapping", "kept"), [("decimal_no_change", "DECIMAL(10, 2)"), (None, "DECIMAL(15, 4)")])
def test_a_wider_decimal_widens_its_column_if_allowed(  # [23]
    make: MakeSync, broker: Broker, mapping: str | None, kept: str
) -> None:
    sync, topic = make("canal-json"), broker.topic()
    flags = ["--table", "t", *(["--type-mapping", mapping] if mapping else [])]
    for type_, value in (("DECIMAL(10,2)", "1.25"), ("DECIMAL(15,4)", "2.5000")):
        broker.send(topic, canal("INSERT", "t", {"id": "INT", "v": type_}, {"id": value[0], "v": value}))
        run(sync.spec(topic, *flags))
    assert sync.columns("t")[1] == f"v {kept}"
    assert [float(row["v"]) for row in sync.rows("t")] == [1.25, 2.5]


def test_options_of_the_command_line_are_set_on_the_table_also_at_a_restart(make: MakeSync, broker: Broker) -> None:
    sync, topic = make("canal-json"), broker.topic()  # [24, 25, 64]
    broker.send(topic, canal("INSERT", "a", {"id": "INT"}, {"id": "1"}))
    first = ["--table-conf", "bucket=3", "--table-conf", "file.format=orc"]
    run(sync.spec(topic, *first))
    assert {"bucket": "3", "file.format": "orc"}.items() <= sync.table("a").options.items()
    broker.send(topic, canal("INSERT", "b", {"id": "INT"}, {"id": "1"}))
    run(sync.spec(topic, *first, "--table-conf", "snapshot.num-retained.max=17"))
    assert sync.table("b").options["snapshot.num-retained.max"] == "17"


@pytest.mark.parametrize("value_format", ["maxwell-json", "aws-dms-json", "ogg-json", "debezium-json", "json"])
def test_a_json_null_is_null(make: MakeSync, broker: Broker, value_format: str) -> None:  # [36]
    row = {"id": 1, "weight": None}
    message = {
        "maxwell-json": maxwell(**row),
        "aws-dms-json": dms("insert", **row),
        "ogg-json": ogg("I", ["id"], after=row),
        "debezium-json": debezium("c", None, row),
        "json": json.dumps(row),
    }[value_format]
    sync, topic = make(value_format), broker.topic()
    broker.send(topic, message)
    run(sync.spec(topic, "--table", "t"))
    assert sync.rows("t") == [{"id": "1", "weight": None}]


def test_tombstones_and_keys_that_are_not_json_are_skipped(make: MakeSync, broker: Broker) -> None:  # [38, 45]
    sync, topic = make("debezium-json"), broker.topic()
    broker.send(topic, debezium("c", None, {"id": 1}), None, debezium("c", None, {"id": 2}), key=b"\xff no json")
    run(sync.spec(topic, "--table", "t", "--primary-keys", "id"))
    assert sync.rows("t") == [{"id": "1"}, {"id": "2"}]


def test_declared_types_of_debezium_widen_stay_and_conflict(make: MakeSync, broker: Broker) -> None:  # [40]
    sync, topic = make("debezium-json"), broker.topic()
    broker.send(topic, declared({"id": 1}, id="int32"))
    broker.send(topic, declared({"id": 2, "age": 18}, id="int32", age="int32"))
    broker.send(topic, declared({"id": 3, "age": 1 << 40}, id="int32", age="int64"))
    broker.send(topic, declared({"id": 4, "age": 20}, id="int32", age="int32"))
    run(sync.spec(topic, "--table", "t"))
    assert sync.columns("t") == ["id INT NOT NULL", "age BIGINT"]
    assert [row["age"] for row in sync.rows("t")] == [None, 18, 1 << 40, 20]
    broker.send(topic, declared({"id": 5, "age": "old"}, id="int32", age="string"))
    with pytest.raises(SchemaConflict, match="Cannot convert field age from type BIGINT to STRING of Paimon table"):
        run(sync.spec(topic, "--table", "t"))


def test_a_delete_without_schema_declares_the_columns_of_its_row(make: MakeSync, broker: Broker) -> None:  # [41]
    sync, topic = make("debezium-json"), broker.topic()
    row = {"id": 101, "name": "scooter", "description": "Small", "weight": 3.14}
    broker.send(topic, json.dumps({"schema": None, "payload": json.loads(debezium("d", row, None, pkNames=["id"]))}))
    run(sync.spec(topic, "--table", "t"))
    assert sync.columns("t") == ["id STRING NOT NULL", "name STRING", "description STRING", "weight STRING"]
    assert sync.rows("t") == []


def test_bson_rows_may_have_metadata_columns(make: MakeSync, broker: Broker) -> None:  # [46]
    sync, topic = make("debezium-bson"), broker.topic()
    source = {"db": "d", "collection": "c"}
    value = {
        "op": "c",
        "before": None,
        "after": '{"_id": {"$oid": "596e275826f08b2730779e1f"}, "n": 1}',
        "source": source,
    }
    broker.send(topic, json.dumps(value), key=json.dumps({"id": '{"$oid": "596e275826f08b2730779e1f"}'}))
    run(sync.spec(topic, "--table", "t", "--metadata-column", "topic,offset"))
    assert sync.rows("t") == [{"_id": "596e275826f08b2730779e1f", "n": "1", "topic": topic, "offset": 0}]


def test_columns_of_plain_json_are_added_with_the_first_row_that_has_them(
    make: MakeSync, broker: Broker
) -> None:  # [49]
    sync, topic = make("json"), broker.topic()
    broker.send(topic, '{"a": 1, "b": "x"}')
    run(sync.spec(topic, "--table", "t"))
    broker.send(topic, '{"a": 2, "b": "y", "c": [1, 2]}')
    run(sync.spec(topic, "--table", "t"))
    assert sync.table("t").primary_keys == []
    assert sync.rows("t") == [{"a": "1", "b": "x", "c": None}, {"a": "2", "b": "y", "c": "[1,2]"}]


@pytest.mark.parametrize("topics", [1, 3])
def test_tables_of_a_database_evolve_separately(make: MakeSync, broker: Broker, topics: int) -> None:  # [50, 62]
    sync, names = make("canal-json"), [broker.topic() for _ in range(topics)]
    t1, t2 = {"id": "INT", "v1": "VARCHAR(30)"}, {"id": "INT", "k2": "VARCHAR(10)", "v1": "INT"}
    broker.send(names[0], canal("INSERT", "t1", t1, {"id": "1", "v1": "one"}))
    broker.send(names[-1], canal("INSERT", "t2", t2, {"id": "2", "k2": "two", "v1": "20"}, pkNames=["id", "k2"]))
    run(sync.spec(";".join(names)))
    broker.send(names[0], canal("INSERT", "t1", t1 | {"v2": "INT"}, {"id": "3", "v1": "three", "v2": "30"}))
    wider = t2 | {"v1": "BIGINT"}
    row = {"id": "4", "k2": "four", "v1": "40000000000"}
    broker.send(names[-1], canal("INSERT", "t2", wider, row, pkNames=["id", "k2"]))
    run(sync.spec(";".join(names)))
    assert sync.columns("t1") == ["id INT NOT NULL", "v1 VARCHAR(30)", "v2 INT"]
    assert sync.columns("t2") == ["id INT NOT NULL", "k2 VARCHAR(10) NOT NULL", "v1 BIGINT"]
    assert [row["v2"] for row in sync.rows("t1")] == [None, 30]
    assert [row["v1"] for row in sync.rows("t2")] == [20, 40_000_000_000]


def test_a_table_that_exists_under_its_new_name_is_captured(make: MakeSync, broker: Broker) -> None:  # [52]
    sync, topic = make("canal-json"), broker.topic()
    sync.create("p_t1_s", [("id", "INT NOT NULL"), ("old", "STRING")], ["id"])
    for table in ("t1", "t2", "t3"):
        broker.send(topic, canal("INSERT", table, {"id": "INT", "v": "INT"}, {"id": "1", "v": "1"}))
    affixes = ["--table-prefix", "p_", "--table-suffix", "_s", "--including-tables", "t1|t2"]
    run(sync.spec(topic, *affixes))
    assert sync.tables() == {"p_t1_s", "p_t2_s"}
    assert sync.rows("p_t1_s") == [{"id": 1, "old": None, "v": 1}]


def test_names_that_differ_in_case_are_one_table_if_the_catalog_folds_case(
    make: MakeSync, broker: Broker
) -> None:  # [57]
    sync, topic = make("canal-json"), broker.topic()
    broker.send(topic, canal("INSERT", "T1", {"ID": "INT", "Name": "INT"}, {"ID": "1", "Name": "1"}, pkNames=["ID"]))
    broker.send(topic, canal("INSERT", "t1", {"id": "INT", "NAME": "INT"}, {"id": "2", "NAME": "2"}))
    run(sync.spec(topic, "--catalog-conf", "case-sensitive=false"))
    assert sync.tables() == {"t1"}
    assert sync.columns("t1") == ["id INT NOT NULL", "name INT"]
    assert sync.rows("t1") == [{"id": 1, "name": 1}, {"id": 2, "name": 2}]


def test_a_record_without_a_table_name_stops_a_database_sync(make: MakeSync, broker: Broker) -> None:  # [58]
    sync, topic = make("canal-json"), broker.topic()
    broker.send(topic, json.dumps({"type": "INSERT", "data": [{"id": "1"}]}))
    with pytest.raises(PenstockError, match="Cannot synchronize record when database name or table name is unknown"):
        run(sync.spec(topic))


def test_audit_times_increase_with_every_update(make: MakeSync, broker: Broker) -> None:  # [60]
    sync, topic = make("canal-json"), broker.topic()
    flags = ["--computed-column", "etl_update_time=now()", "--computed-column", "pt=date_format(etl_update_time,yyyy)"]
    types = {"id": "INT", "v": "INT"}
    broker.send(topic, canal("INSERT", "t", types, {"id": "1", "v": "1"}))
    run(sync.spec(topic, *flags))
    (first,) = sync.rows("t")
    broker.send(topic, canal("UPDATE", "t", types, {"id": "1", "v": "2"}, old=[{"v": "1"}]))
    run(sync.spec(topic, *flags))
    (second,) = sync.rows("t")
    assert second["etl_update_time"] > first["etl_update_time"]
    assert (second["v"], second["pt"]) == (2, str(second["etl_update_time"].year))


def test_keys_of_goldengate_that_change_their_case_are_one_key(make: MakeSync, broker: Broker) -> None:  # [63]
    sync, topic = make("ogg-json"), broker.topic()
    broker.send(topic, ogg("I", ["ID"], after={"ID": 1, "V": "a"}), ogg("I", ["id"], after={"id": 2, "v": "b"}))
    broker.send(topic, ogg("U", ["id"], before={"id": 1, "v": "a"}, after={"id": 1, "v": "c"}))
    run(sync.spec(topic, "--catalog-conf", "case-sensitive=false"))
    assert sync.table("t").primary_keys == ["id"]
    assert sync.rows("t") == [{"id": "1", "v": "c"}, {"id": "2", "v": "b"}]


EVENTS = {
    "canal-json": canal("INSERT", "t", {"id": "INT"}, {"id": "1"}, ts=7000),
    "maxwell-json": maxwell(id=1),
    "ogg-json": ogg("I", ["id"], after={"id": 1}),
    "debezium-json": debezium("c", None, {"id": 1}, ts_ms=7000),
    "aws-dms-json": dms("insert", id=1).replace('"record-type"', '"timestamp": "1970-01-01T00:00:07Z", "record-type"'),
}


@pytest.mark.parametrize("value_format", EVENTS)
def test_a_snapshot_has_the_watermark_of_its_events(make: MakeSync, broker: Broker, value_format: str) -> None:
    sync, topic = make(value_format), broker.topic()  # [22, 34]
    broker.send(topic, EVENTS[value_format])
    options = {
        "tag.automatic-creation": "watermark",
        "tag.creation-period": "daily",
        "scan.watermark.idle-timeout": "10 s",
    }
    conf = [word for name, value in options.items() for word in ("--table-conf", f"{name}={value}")]
    run(sync.spec(topic, "--table", "t", *conf))
    latest = sync.table("t").latest_snapshot
    assert latest is not None
    assert latest.watermark == 7000 - 1
