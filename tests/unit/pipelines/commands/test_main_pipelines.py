"""init, check, plan, status, signal and schema: what they answer, with which exit code, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ConfigError, SourceError
from penstock.ingest.files.source import FilesSource
from penstock.ingest.kafka.config import KafkaConfig
from penstock.ingest.mongodb.config import MongoConfig
from penstock.ingest.patience import patience_seconds
from penstock.ingest.pulsar.config import PulsarConfig
from penstock.pipelines.api.check_places import small_files
from penstock.pipelines.commands.main import main
from penstock.pipelines.commands.run import started_at
from penstock.pipelines.config import yaml_file
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.here import note_as_spark_does, run
from tests.shop import Shop, change, insert

# Stores are kept by their warehouse's name, so each test has one of its own.
FILE = """
version: 1
pipeline: {name: shop, until: caught-up}
source: {type: files, path: in, value.format: canal-json}
sink:
  catalog: {warehouse: WAREHOUSE}
  database: ods
  table-options: {bucket: "1"}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}), insert("users", {"id": 9}))
    write(shop)
    return shop


def write(shop: Shop, **replaced: str) -> None:
    text = FILE.replace("WAREHOUSE", shop.warehouse.warehouse)
    for old, new in replaced.items():
        text = text.replace(old, new)
    Path("shop.yaml").write_text(text)


def output_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(words)) == code
    return capsys.readouterr().out


def answered(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_of(capsys, *words, "--json", code=code))
    return found


def test_init_reads_messages_and_writes_a_file_that_check_accepts(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "canal-json" in output_of(capsys, "init", "in", "warehouse", "--name", "shop", "--output", "new.yaml")
    spec = yaml_file.load(Path("new.yaml"))
    assert (spec.source.type, spec.pipeline.name, spec.sink.database) == ("files", "shop", "ods")
    assert answered(capsys, "check", "new.yaml")["ok"]
    assert main(["init", "in", "warehouse", "--output", "new.yaml"]) == 2


def test_init_refuses_a_file_as_the_warehouse(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "in", "new.yaml"]) == 2
    assert "penstock init SOURCE WAREHOUSE --output new.yaml" in capsys.readouterr().err
    assert not Path("pipeline.yaml").exists()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("mysql://cdc:hush@db.internal/shop", "mysql"),
        ("postgres://cdc:hush@db.internal:6432/shop", "postgres"),
        ("postgresql://cdc:hush@db.internal/Shop-EU", "postgres"),
        ("mongodb://cdc:hush@a.internal:27017,b.internal/shop?replicaSet=rs0&tls=true", "mongodb"),
        ("mongodb+srv://cdc:hush@db.internal/shop", "mongodb"),
    ],
)
def test_init_writes_no_password(
    place: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, variable = tmp_path / "p.yaml", f"{kind.upper()}_PASSWORD"
    shown = output_of(capsys, "init", place, "/lake", "--offline", "--output", str(target))
    assert "hush" not in target.read_text()
    assert f"export {variable}" in shown
    monkeypatch.setenv(variable, "given")
    spec = yaml_file.load(target)
    assert (spec.source.type, getattr(spec.source, "username")) == (kind, "cdc")  # noqa: B009  keys of their own


def test_init_keeps_hosts_and_options_of_a_connection_string(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, place = tmp_path / "p.yaml", "mongodb://a.internal:27017,b.internal/shop?replicaSet=rs0&tls=true"
    assert "export" not in output_of(capsys, "init", place, "/lake", "--offline", "--output", str(target))
    source = yaml_file.load(target).source
    assert isinstance(source, MongoConfig)
    assert (source.hosts, source.connection_options) == ("a.internal:27017,b.internal", "replicaSet=rs0&tls=true")
    assert (source.tables, source.username) == (("shop.*",), "")


@pytest.mark.parametrize(
    ("place", "service", "topic", "name"),
    [
        ("pulsar://a:6650,b:6650/orders", "pulsar://a:6650,b:6650", "orders", "orders"),
        ("pulsar+ssl://a:6651/shop/eu/orders", "pulsar+ssl://a:6651", "shop/eu/orders", "orders"),
    ],
)
def test_init_writes_a_pipeline_of_a_pulsar_topic(
    place: str, service: str, topic: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "p.yaml"
    words = ("--offline", "--format", "json", "--output", str(target))
    output_of(capsys, "init", place, "/lake", *words)
    spec = yaml_file.load(target)
    assert isinstance(spec.source, PulsarConfig)
    assert spec.source.properties["pulsar.client.serviceUrl"] == service
    assert (spec.pipeline.name, spec.source.topic, spec.source.value_format) == (name, (topic,), "json")


@pytest.mark.parametrize("place", ["postgres://h", "mongodb://u:p@h", "pulsar://h:6650", "pulsar://h/tenant/topic"])
def test_init_says_what_a_url_lacks(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", place, "/lake", "--offline", "--output", "never.yaml"]) == 2
    assert "the URL contains no" in capsys.readouterr().err
    assert not Path("never.yaml").exists()


def test_check_reports_all_mistakes_of_a_file_with_their_lines(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop, **{"type: files": "type: files, patern: x", "database: ods": "databse: ods"})
    out = output_of(capsys, "check", "shop.yaml", code=2)
    assert "did you mean pattern?" in out
    assert "did you mean database?" in out
    assert "line: 4" in out


def test_check_reports_a_wrong_option_and_a_missing_folder_together(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    write(shop, **{"path: in": "path: gone", 'bucket: "1"': "bukket: 1"})
    facts = answered(capsys, "check", "shop.yaml", code=2)
    errors = {finding["about"]: finding for finding in facts["findings"] if finding["level"] == "error"}
    assert set(errors) == {"options", "source"}
    assert "did you mean bucket?" in errors["options"]["fix"]
    assert errors["source"]["code"] == 3


def test_plan_says_what_a_dropped_update_leaves_behind(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "expect: [{source-table: shop.orders, condition: id > 0, action: drop}]"
    write(shop, **{"sink:\n": f"{rule}\nsink:\n"})
    line = "expects id > 0, or drop (a dropped update leaves the row as it was before)"
    assert output_of(capsys, "plan", "shop.yaml").count(line) == 1
    run(yaml_file.load(Path("shop.yaml")))
    known = output_of(capsys, "plan", "shop.yaml")
    assert "nothing to do" in known
    assert known.count(line) == 1


def test_check_and_plan_explain_options_without_effect(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop, **{'bucket: "1"': 'bucket: "1", sink.parallelism: "4", sort-engine: loser-tree'})
    note = "sink.parallelism has no effect: Spark tasks write"
    out = output_of(capsys, "check", "shop.yaml")
    assert note in out
    assert "sort-engine" not in out
    assert note in output_of(capsys, "plan", "shop.yaml")


def test_a_time_between_full_compactions_becomes_a_number_of_batches(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    options = 'bucket: "1", changelog-producer: full-compaction, changelog-producer.compaction-interval: 5 min'
    write(shop, **{'bucket: "1"': options, "until: caught-up": "trigger: 30s"})
    assert "full-compaction.delta-commits=10" in output_of(capsys, "plan", "shop.yaml")
    write(shop, **{'bucket: "1"': f'{options}, full-compaction.delta-commits: "3"', "until: caught-up": "trigger: 30s"})
    assert "full-compaction.delta-commits=3" in output_of(capsys, "plan", "shop.yaml")


def test_check_refuses_invalid_values_of_options(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop, **{'bucket: "1"': 'bucket: "1", read.batch-size: x'})
    facts = answered(capsys, "check", "shop.yaml", code=2)
    errors = [fact["message"] for fact in facts["findings"] if fact["level"] == "error"]
    assert any("'x' is not a whole number" in message and "read.batch-size" in message for message in errors)


def test_check_reports_options_of_existing_tables(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    write(shop, **{"until: caught-up": "until: caught-up, accept-replay: true"})
    schema = Path("warehouse/ods.db/orders/schema/schema-0")
    node = json.loads(schema.read_text())
    node["options"] |= {"upsert-key": "id", "file.block-size": "1 mb"}
    schema.write_text(json.dumps(node))
    out = output_of(capsys, "check", "shop.yaml", code=2)
    assert "ods.orders: a table with upsert-key = id cannot be written here" in out
    assert "ods.orders: file.block-size has no effect" in out


def test_check_exits_with_3_for_a_single_source_error(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop, **{"path: in": "path: gone"})
    output_of(capsys, "check", "shop.yaml", code=3)


def test_check_finds_messages_of_another_format(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop, **{"canal-json": "maxwell-json"})
    assert "check value.format" in output_of(capsys, "check", "shop.yaml", code=8)


def test_check_changes_nothing(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(str(path) for path in Path().rglob("*"))
    output_of(capsys, "check", "shop.yaml")
    assert sorted(str(path) for path in Path().rglob("*")) == before


def test_plan_shows_what_would_be_created_and_why(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    tables = answered(capsys, "plan", "shop.yaml")["tables"]
    assert [(table["table"], table["action"]) for table in tables] == [
        ("ods.orders", "create"),
        ("ods.users", "create"),
    ]
    out = output_of(capsys, "plan", "shop.yaml", "--explain", "shop.orders")
    assert "mysql varchar(20)" in out
    assert "ods.users" not in out


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ({"table": "ods.one"}, "create ods.one   from shop.orders"),
        ({"table": "a/b"}, "cannot create or alter ods.a/b   from shop.orders\n  'a/b' cannot be the name of a table"),
    ],
)
def test_plan_shows_the_name_of_a_single_table(
    tmp_path: Path, sink: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    text = json.dumps(
        {
            "source": {"type": "files", "path": str(shop.inbox), "value.format": "canal-json"},
            "sink": {"catalog": {"warehouse": str(tmp_path)}, "database": "ods", **sink},
        }
    )
    (tmp_path / "p.yaml").write_text(text)
    main(["plan", str(tmp_path / "p.yaml")])
    assert message in capsys.readouterr().out


def test_plan_shows_the_difference_to_existing_tables(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    assert "no changes" in output_of(capsys, "plan", "shop.yaml", "--diff")
    shop.put("2.json", insert("orders", {"id": 2, "name": "b", "q1": 7}))
    assert "add q1 INT" in output_of(capsys, "plan", "shop.yaml", "--diff")
    write(shop, ods="ods\n  computed-columns: ['half=truncate(q1, 2)']")
    out = output_of(capsys, "plan", "shop.yaml")
    (line,) = [line for line in out.splitlines() if line.endswith("add half INT")]
    assert "computed by truncate(q1, 2)" in line


def test_status_works_from_the_tables_alone(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    facts = answered(capsys, "status", "shop", "--warehouse", shop.warehouse.warehouse)
    (orders, users) = facts["tables"]
    assert (orders["table"], orders["records"], orders["snapshot"], orders["batch"]) == ("ods.orders", 1, 1, 0)
    assert orders["fresh_seconds"] > 0
    assert (users["table"], facts["driver"], facts["position"]["batch"]) == ("ods.users", None, 1)


def test_status_accepts_the_flags_of_an_action(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    place = ["--warehouse", shop.warehouse.warehouse, "--database", "ods", "--name", "shop", "--until-caught-up"]
    conf = ["properties.bootstrap.servers=nowhere:1", "topic=t", "value.format=canal-json"]
    words = [*place, *(word for item in conf for word in ("--kafka-conf", item))]
    facts = answered(capsys, "status", "kafka-sync-database", *words, "--offline")
    assert [table["table"] for table in facts["tables"]] == ["ods.orders", "ods.users"]


def test_a_table_is_fresh_if_the_source_has_no_more_data(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    assert answered(capsys, "status", "shop.yaml")["tables"][0]["fresh_seconds"] == 0
    shop.put("2.json", insert("orders", {"id": 2, "name": "b"}))
    assert answered(capsys, "status", "shop.yaml")["tables"][0]["fresh_seconds"] > 0


def test_status_does_not_wait_for_a_source_that_is_away(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    note_as_spark_does(Path(yaml_file.load(Path("shop.yaml")).checkpoint))

    def away(source: FilesSource, offsets: Any) -> dict[str, int]:
        raise SourceError(f"not there after {patience_seconds(60.0):g} s", retryable=True)

    monkeypatch.setattr(FilesSource, "lag", away)
    assert "the source cannot be reached: not there after 0 s" in output_of(capsys, "status", "shop.yaml")


def test_a_signal_waits_in_the_checkpoint(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    folder = CheckpointFolder(f"{shop.warehouse.warehouse}/_penstock/shop")
    assert main(["signal", "shop.yaml", "pause"]) == 2  # it has never run
    folder.put_status({"state": "stopped"})
    output_of(capsys, "signal", "shop.yaml", "pause")
    assert folder.signals().paused
    output_of(capsys, "signal", "shop.yaml", "resume")
    assert not folder.signals().paused
    capsys.readouterr()
    assert main(["signal", "shop.yaml", "pauze"]) == 2
    assert "there is no signal 'pauze'" in capsys.readouterr().err
    assert main(["signal", "shop.yaml", "stop"]) == 2  # no driver would hear it
    assert main(["signal", "shop.yaml", "snapshot", "shop.orders"]) == 2  # files have no tables to copy


def test_a_condition_of_a_signal_is_checked_before_it_is_sent(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    folder = CheckpointFolder(f"{shop.warehouse.warehouse}/_penstock/shop")
    folder.put_status({"state": "stopped"})
    words = ["signal", "shop", "snapshot", "shop.orders", "--warehouse", shop.warehouse.warehouse, "--where"]
    for wrong, said in (
        ("region = ", "it is incomplete\n  expression  region =\n  at          8"),
        ("at > now()", "depends on the time"),
        (" ", "the condition of --where is empty"),
    ):
        assert main([*words, wrong]) == 2
        assert said in capsys.readouterr().err
    assert main(["signal", "shop.yaml", "pause", "--where", "id > 1"]) == 2
    assert "--where has no meaning for the signal pause" in capsys.readouterr().err
    assert folder.signals().snapshots == ()
    facts = answered(capsys, *words, "region = 'EU'")
    assert (facts["tables"], facts["where"]) == (["shop.orders"], "region = 'EU'")
    [(_, tables, where)] = folder.signals().snapshots
    assert (tables, where) == (("shop.orders",), "region = 'EU'")
    requested = answered(capsys, "status", "shop", "--warehouse", shop.warehouse.warehouse)["rereads"]["copy requested"]
    assert requested == ["shop.orders where region = 'EU'"]


def test_a_part_of_a_collection_is_refused_by_name(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "source: {type: mongodb, hosts: h, database: d}"
    sink = f"sink: {{catalog: {{warehouse: {tmp_path}/w}}, database: ods}}"
    text = "\n".join(["pipeline: {name: docs}", source, sink])
    (tmp_path / "docs.yaml").write_text(text)
    CheckpointFolder(f"{tmp_path}/w/_penstock/docs").put_status({"state": "stopped"})
    assert main(["signal", f"{tmp_path}/docs.yaml", "snapshot", "d.c", "--where", "a = 1"]) == 2
    said = capsys.readouterr().err
    assert "a source of type mongodb cannot copy a part of a table by a condition" in said
    assert "sources of type mysql, postgres can; without --where the whole table is copied again" in said


def test_a_copy_into_a_table_that_adds_rows_up_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "source: {type: mysql, hostname: h, username: u, password: p, tables: d.*}"
    sink = f"sink: {{catalog: {{warehouse: {tmp_path}/w}}, database: ods}}"
    (tmp_path / "sums.yaml").write_text("\n".join(["pipeline: {name: sums}", source, sink]))
    folder = CheckpointFolder(f"{tmp_path}/w/_penstock/sums")
    folder.put_status({"state": "stopped"})
    catalog = penstock.Catalog(f"{tmp_path}/w")
    catalog.create_database("ods")
    columns = [("id", "INT NOT NULL"), ("n", "INT")]
    catalog.create_table("ods.plain", columns, ["id"])
    sums = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    catalog.create_table("ods.sums", columns, ["id"], options=sums)
    catalog.create_table("ods.log", columns)
    for table in ("sums", "log"):
        assert main(["signal", f"{tmp_path}/sums.yaml", "snapshot", "d.plain", f"d.{table}"]) == 2
        said = capsys.readouterr().err
        assert "the target table would have the copied rows twice" in said
        assert f"--reset ods.{table}" in said
    assert folder.signals().snapshots == ()
    output_of(capsys, "signal", f"{tmp_path}/sums.yaml", "snapshot", "d.plain", "d.unknown")
    assert len(folder.signals().snapshots) == 1
    sources = [["d", "plain", "ods.plain"], ["d", "sums", "ods.sums"]]
    folder.put_filled_tables({"sources": sources, "left_out": [], "tables": {}})
    assert main(["signal", f"{tmp_path}/sums.yaml", "snapshot", "sums"]) == 2  # a name without its database
    assert "the target table would have the copied rows twice" in capsys.readouterr().err
    assert main(["signal", f"{tmp_path}/sums.yaml", "snapshot", "plain", "d.plain"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["signal", f"{tmp_path}/sums.yaml", "snapshot", "ods.plain"]) == 0
    assert "ods.plain was not read so far" in capsys.readouterr().err


def test_the_schema_of_pipeline_files_names_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(output_of(capsys, "schema"))
    assert {"pipeline", "source", "sink", "errors"} <= set(schema["properties"])
    assert schema["$defs"]["PipelineConfig"]["properties"]["max-batch"]


@pytest.mark.parametrize("verb", ["init", "check", "plan", "run", "status", "signal", "schema"])
def test_each_command_has_help_and_accepts_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_an_update_is_planned_as_a_row_of_its_table(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.put("2.json", change("UPDATE", "orders", {"id": 1, "name": "b"}, old=[{"name": "a"}]))
    run(yaml_file.load(Path("shop.yaml")))
    assert answered(capsys, "plan", "shop.yaml")["tables"][0]["action"] == "keep"


def test_from_sets_the_start_of_a_new_checkpoint() -> None:
    kafka = FILE.replace(
        "{type: files, path: in, value.format: canal-json}",
        '{type: kafka, topic: "a;b", value.format: json, properties: {bootstrap.servers: "k:9092"}}',
    )
    spec = yaml_file.read(kafka)
    begun = [started_at(spec, place).source for place in ("earliest", "latest", "2026-01-31T12:00:00Z")]
    assert all(isinstance(item, KafkaConfig) and item.topic == ("a", "b") for item in begun)
    assert [item.startup.mode for item in begun if isinstance(item, KafkaConfig)] == [
        "earliest-offset",
        "latest-offset",
        "timestamp",
    ]
    with pytest.raises(ConfigError, match="is not a start position"):
        started_at(spec, "soon")
    with pytest.raises(ConfigError, match="always starts with the existing data"):
        started_at(yaml_file.read(FILE), "earliest")


def test_from_is_refused_for_an_existing_checkpoint(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    offsets = shop.folder / "warehouse/_penstock/shop/offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n{}")
    assert main(["run", "shop.yaml", "--from", "earliest"]) == 2
    assert "--from is for new checkpoints" in capsys.readouterr().err


def test_a_read_only_checkpoint_is_reported_by_check_and_before_spark_starts(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("closed").write_text("a file, where a folder should be")
    write(shop, **{"{name: shop,": "{name: shop, checkpoint: closed/shop,"})
    monkeypatch.setattr("penstock.pipelines.spark.session.open_session", lambda *_, **__: pytest.fail("Spark starts"))
    assert main(["run", "shop.yaml"]) == 2
    assert "the checkpoint folder is not writable" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: False)
    write(shop, **{"{name: shop,": "{name: shop, checkpoint: made/shop,"})
    assert "made/shop cannot be created" in output_of(capsys, "check", "shop.yaml", code=2)


def test_check_warns_of_tables_in_many_small_files(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run(yaml_file.load(Path("shop.yaml")))
    assert list(small_files(shop.warehouse, ["ods.orders"])) == []
    monkeypatch.setattr("penstock.pipelines.api.check_places._MANY_FILES", 1)
    (warning,) = small_files(shop.warehouse, ["ods.orders"])
    assert (warning.level, warning.message) == ("warning", "ods.orders is 1 files of 0.0 MB")


def test_plan_and_status_do_not_estimate_requests_to_a_local_disk(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(capsys, "plan", "shop.yaml")["store_cost"] is None
    run(yaml_file.load(Path("shop.yaml")))
    assert answered(capsys, "status", "shop.yaml")["store_cost"] is None
    assert "estimate" not in output_of(capsys, "status", "shop.yaml")


def test_plan_and_status_estimate_the_requests_to_an_object_store(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What decides is the URL of the warehouse alone.
    monkeypatch.setattr("penstock.pipelines.monitor.store_cost.is_object_store", lambda url: True)
    monkeypatch.setattr("penstock.storage.open.is_object_store", lambda url: True)
    write(shop, **{"until: caught-up": "until: caught-up, trigger: 60s"})
    cost = answered(capsys, "plan", "shop.yaml")["store_cost"]
    # Two tables with 7 writes and listings and 11 reads each, in 1,440 batches a day.
    assert (cost["tables"], cost["requests_per_day"], cost["dollars_per_month"]) == (2, 51_840, 3.40)
    dearer = answered(capsys, "plan", "shop.yaml", "--request-prices", "0.05,0.004")["store_cost"]
    assert dearer["dollars_per_month"] == 34.04
    assert "$3.40 a month" in output_of(capsys, "plan", "shop.yaml")
    assert main(["plan", "shop.yaml", "--request-prices", "cheap"]) == 2
    run(yaml_file.load(Path("shop.yaml")))
    seen = answered(capsys, "status", "shop.yaml")["store_cost"]
    assert (seen["estimate"], seen["requests_per_day"], seen["dollars_per_month"]) == (True, 51_840, 3.40)
    assert "estimate: at most about 51,840 requests a day" in output_of(capsys, "status", "shop.yaml")


def test_freshness_of_a_table_is_refused_by_name(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop, **{'table-options: {bucket: "1"}': "freshness: 10m"})
    assert main(["plan", "shop.yaml"]) == 2
    assert "freshness" in capsys.readouterr().err
