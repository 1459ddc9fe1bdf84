from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.ingest.files.connector import FilesConfig
from penstock.ingest.kafka.config import KafkaConfig
from penstock.pipelines.config import yaml_file

SMALLEST = """
source:
  type: kafka
  properties: {bootstrap.servers: "k:9092", sasl.password: "${KAFKA_PASSWORD}"}
  topic: [shop]
  value.format: canal-json
sink:
  catalog: {warehouse: /data}
  database: ods
"""


def test_the_smallest_file_is_a_pipeline() -> None:
    spec = yaml_file.read(SMALLEST)
    assert isinstance(spec.source, KafkaConfig)
    assert spec.source.topic == ("shop",)
    assert spec.pipeline.trigger == 30


def test_a_file_may_contain_version_1() -> None:
    assert yaml_file.read("version: 1" + SMALLEST).version == 1
    with pytest.raises(ConfigError, match="should be 1"):
        yaml_file.read("version: 2" + SMALLEST)


def test_secrets_stay_references() -> None:
    spec = yaml_file.read(SMALLEST)
    assert isinstance(spec.source, KafkaConfig)
    assert spec.source.properties["sasl.password"] == "${KAFKA_PASSWORD}"


def test_other_references_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE", "/from/env")
    assert yaml_file.read(SMALLEST.replace("/data", '"${WAREHOUSE}"')).sink.catalog.warehouse == "/from/env"


def test_scalars_keep_their_text() -> None:
    text = SMALLEST + "  table-options: {a: no, b: 1:30, c: 017, d: 0000-00-00, e: 1.10}\n"
    options = yaml_file.read(text).sink.table_options
    assert options == {"a": "no", "b": "1:30", "c": "017", "d": "0000-00-00", "e": "1.10"}


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("topic:", "topics:", "did you mean topic?", 5),
        ("  database: ods", "  database: ods\n  database: x", "appears twice", 10),
        ("type: kafka", "type: kafak", "kafka", 3),
        ("catalog: {warehouse: /data}", "", "is missing", 7),
    ],
)
def test_mistakes_are_reported_with_their_line(old: str, new: str, message: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read(SMALLEST.replace(old, new))
    assert message in str(caught.value).lower()
    assert caught.value.facts["line"] == line


def test_invalid_yaml_is_reported_with_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read("source: {a: ${X:-}}\n")
    assert caught.value.facts["line"] == 1


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "does not describe a pipeline", "add the sections"),
        ("# nothing\n", "does not describe a pipeline", "add the sections"),
        ("- source", "does not describe a pipeline", "add the sections"),
        ("source:\n\ttype: mysql\n", "is not YAML", "not with tabs"),
        ("source: {}\n---\nsink: {}\n", "is not YAML", "remove the second"),
        ("source:\n  pattern: *.json\n", "is not YAML", "quote a value that begins with *"),
        ("source: a: b\n", "is not YAML", "quote a value that contains a colon"),
        ("source: \x07\n", "is not YAML", "not text"),
        ("? [a]\n: b\n", "a key must be a scalar", "quote"),
        ("source: &a\n  type: *a\n", "nested too deeply", None),
    ],
)
def test_a_file_without_a_pipeline_reports_what_to_do(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        yaml_file.read(text)
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("database: shop", "did you mean database-name?"),
        ("value.format: json", "a source of another type has this key"),
    ],
)
def test_a_key_of_a_source_of_another_type_is_not_suggested_again(key: str, hint: str) -> None:
    source = f"{{type: mysql, hostname: h, username: u, password: p, {key}}}"
    with pytest.raises(ConfigError, match="is unknown") as caught:
        yaml_file.read(f"source: {source}\nsink: {{catalog: {{warehouse: /w}}, database: ods}}\n")
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint", "line"),
    [
        ("  value.format: canal-json", "  value.fromat: canal-json", "`value.fromat` is unknown", "value.format?", 6),
        ("catalog: {warehouse: /data}", "catalog: {warehous: /data}", "`warehous` is unknown", "warehouse?", 8),
        (
            "catalog: {warehouse: /data}",
            "catalog: /data",
            "expected keys and values, not '/data'",
            "warehouse",
            8,
        ),
        ("  topic: [shop]", "  topic: {shop: x}", "expected a list, not a mapping", "[one, two]", 5),
        ("  database: ods", "  database: [ods]", "expected one value, not a list", None, 9),
        ("  database: ods", "  compaction: {mode: inlin}", "'inlin' is not allowed here", "did you mean inline?", 9),
        ("  database: ods", "  schema-init-max-read: many", "expected a whole number, not 'many'", None, 9),
        (
            "\nsource:",
            "\npipeline: {name: ../up}\nsource:",
            "'../up' is not allowed here",
            "does not begin with a dot",
            2,
        ),
        ("  database: ods", "  expire: {snapshots-retained: few}", "'few' is not allowed here", "10..100", 9),
        ("\nsource:", "\ntransform: [{source-table: a.b, filter: id >}]\nsource:", "it is incomplete", None, 2),
        ("\nsource:", "\ntransform: [{source-table: a.b, mask: {a: sha}}]\nsource:", "does not exist", "sha256", 2),
        (
            "\nsource:",
            "\nroute: [{source-table: ab, sink-table: a.b}]\nsource:",
            "'ab' does not name a table",
            "database.table",
            2,
        ),
    ],
)
def test_a_mistake_is_reported_once_with_a_suggestion(
    old: str, new: str, message: str, hint: str | None, line: int
) -> None:
    found = yaml_file.examine(SMALLEST.replace(old, new, 1))
    assert isinstance(found, list)
    (error,) = found
    assert message in error.message
    assert hint is None or hint in (error.hint or "")
    assert error.facts["line"] == line


def test_names_of_pipelines_may_be_of_any_language() -> None:
    assert yaml_file.read("pipeline: {name: ods.订单 2}" + SMALLEST).pipeline.name == "ods.订单 2"


def test_an_invalid_secret_value_is_not_shown() -> None:
    mysql = "{type: mysql, hostname: h, username: u, password: [hush], tables: [a.b]}"
    found = yaml_file.examine(f"source: {mysql}\nsink: {{catalog: {{warehouse: w}}}}\n")
    assert isinstance(found, list)
    assert "hush" not in str(found[0])


def test_anchors_and_merges_are_resolved() -> None:
    text = """
x-shared: &shared {path: in, pattern: "*.json", value.format: canal-json}
x-more: &more {order: name, pattern: "*"}
source:
  <<: [*shared, *more]
  type: files
  path: here
sink:
  catalog: {warehouse: /data}
  database: ods
  table-options: &options {bucket: 2}
  per-table:
    ods.a: *options
    ods.b: {<<: *options, changelog-producer: input}
"""
    spec = yaml_file.read(text)
    assert isinstance(spec.source, FilesConfig)
    assert (spec.source.path, spec.source.pattern, spec.source.order) == ("here", "*.json", "name")
    assert spec.sink.per_table == {"ods.a": {"bucket": "2"}, "ods.b": {"bucket": "2", "changelog-producer": "input"}}
    with pytest.raises(ConfigError, match="needs a mapping"):
        yaml_file.read("source: {<<: text, type: files}")


@pytest.mark.parametrize(
    ("given", "message"), [("  type: kafkaa\n", "unknown source type 'kafkaa'"), ("", "`type` is missing")]
)
def test_an_unknown_source_type_is_reported_with_the_known_types(given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        yaml_file.read(SMALLEST.replace("  type: kafka\n", given))
    assert "kafka, files, mysql, postgres, pulsar, mongodb and table" in (caught.value.hint or "")


def test_a_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        yaml_file.load(tmp_path / "p.yaml")
