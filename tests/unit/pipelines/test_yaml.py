from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spec import yaml_file
from penstock.pipelines.spec.model import KafkaSource

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
    assert isinstance(spec.source, KafkaSource)
    assert spec.source.topic == ("shop",)
    assert spec.pipeline.trigger == 30


def test_a_file_may_say_its_version_and_there_is_one() -> None:
    assert yaml_file.read("version: 1" + SMALLEST).version == 1
    with pytest.raises(ConfigError, match="should be 1"):
        yaml_file.read("version: 2" + SMALLEST)


def test_secrets_stay_references() -> None:
    spec = yaml_file.read(SMALLEST)
    assert isinstance(spec.source, KafkaSource)
    assert spec.source.properties["sasl.password"] == "${KAFKA_PASSWORD}"


def test_other_references_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE", "/from/env")
    assert yaml_file.read(SMALLEST.replace("/data", '"${WAREHOUSE}"')).sink.catalog.warehouse == "/from/env"


def test_scalars_stay_what_was_written() -> None:
    text = SMALLEST + "  table-options: {a: no, b: 1:30, c: 017, d: 0000-00-00, e: 1.10}\n"
    options = yaml_file.read(text).sink.table_options
    assert options == {"a": "no", "b": "1:30", "c": "017", "d": "0000-00-00", "e": "1.10"}


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("topic:", "topics:", "did you mean topic?", 5),
        ("  database: ods", "  database: ods\n  database: x", "given twice", 10),
        ("type: kafka", "type: kafak", "kafka", 2),
        ("catalog: {warehouse: /data}", "", "is missing", 7),
    ],
)
def test_mistakes_are_told_with_their_line(old: str, new: str, message: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read(SMALLEST.replace(old, new))
    assert message in str(caught.value).lower()
    assert caught.value.facts["line"] == line


def test_what_is_no_yaml_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read("source: {a: ${X:-}}\n")
    assert caught.value.facts["line"] == 1
