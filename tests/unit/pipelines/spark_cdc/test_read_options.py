"""The options of format("...-cdc"): keys of the connector's section, and refusals by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.ingest.connectors import CONNECTORS
from penstock.ingest.kafka.config import KafkaConfig
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.source import Limit
from penstock.pipelines.spark_cdc.read_options import CdcRead

MYSQL = {"hostname": "h", "username": "u", "password": "${P}", "table": "shop.order$items", "state": "/state"}


def test_the_options_are_the_keys_of_the_section(tmp_path: Path) -> None:
    read = CdcRead.of(
        "mysql",
        {**MYSQL, "PORT": "3307", "startup.mode": "latest", "ssl.mode": "disabled", "snapshot.chunk-rows": "7"},
    )
    config = read.config
    assert isinstance(config, MySqlConfig)
    assert (config.port, config.startup.mode, config.ssl.mode) == (3307, "latest-offset", "disabled")
    assert config.snapshot.chunk_rows == 7
    assert config.password == "${P}", "a reference is resolved where it is used"
    assert read.table == ("shop", "order$items")


def test_the_source_selects_exactly_the_table() -> None:
    capture = CdcRead.of("mysql", MYSQL)
    captured = capture.connector.capture(capture.config, capture.request)
    assert captured.includes(("shop", "order$items"), frozenset())
    assert not captured.includes(("shop", "order$items2"), frozenset())
    assert not captured.includes(("shops", "order$items"), frozenset())


def test_keys_with_dots_and_keys_of_any_name() -> None:
    read = CdcRead.of(
        "kafka",
        {
            "properties.bootstrap.servers": "b:1",
            "topic": "a,b",
            "value.format": "canal-json",
            "schema-registry.url": "http://r",
            "max-batch.rows": "5",
            "max-batch.bytes": "1kb",
        },
    )
    assert isinstance(read.config, KafkaConfig)
    assert read.config.properties == {"bootstrap.servers": "b:1"}
    assert read.config.schema_registry == {"url": "http://r"}
    assert read.config.topic == ("a", "b")
    assert (read.table, read.limit) == (None, Limit(5, 1024))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tabel": "x"}, "did you mean table?"),
        ({"startup.mod": "x"}, "did you mean startup.mode?"),
        ({"type": "kafka"}, "'type' is not an option"),
        ({"path": "/x"}, "no path"),
        ({"tables": "shop.*"}, "the rows of one table"),
        ({"table": "orders"}, "write database.table"),
        ({"port": "high"}, "option: port"),
        ({"startup.mode": "x"}, "Unknown scan.startup.mode"),
        ({"new-columns": "add"}, "fail or ignore"),
        ({"bad-records": "drop"}, "fail or skip"),
        ({"parallelism": "0"}, "not a positive number"),
        ({"max-batch.bytes": "many"}, "cannot be parsed"),
        ({"time-zone": "Mars/X"}, "option: time-zone"),
        ({"state": "relative"}, "not an absolute path"),
        ({"server-id": "x"}, "neither a number nor a range"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        CdcRead.of("mysql", {**MYSQL, **given})
    assert words in str(refused.value)


@pytest.mark.parametrize("missing", ["table", "state", "hostname"])
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(ConfigError) as refused:
        CdcRead.of("mysql", {name: value for name, value in MYSQL.items() if name != missing})
    assert missing in str(refused.value)


def test_a_secret_is_not_in_an_error() -> None:
    with pytest.raises(ConfigError) as refused:
        CdcRead.of("mysql", {**MYSQL, "password": "hunter2", "port": "-1"})
    assert "hunter2" not in str(refused.value)


def test_every_connector_has_options() -> None:
    for kind in CONNECTORS.built_in:
        with pytest.raises(ConfigError, match=r"is not an option of|reads one table"):
            CdcRead.of(kind, {"no-such-option": "1", "state": "/s"})
