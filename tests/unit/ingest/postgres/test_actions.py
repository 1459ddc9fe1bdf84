"""The options of --postgres-conf, by the names of Paimon's action and of Flink CDC."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.ingest.postgres.actions import conf_section

LEAST = {
    "hostname": "h",
    "username": "u",
    "password": "p",
    "database-name": "d",
    "schema-name": "s",
    "table-name": "t",
    "slot.name": "slot",
}


@pytest.mark.parametrize("key", LEAST)
def test_required_options_are_named(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        conf_section({name: value for name, value in LEAST.items() if name != key}, names_table=True)
    assert caught.value.message == f"postgres_conf [{key}] must be specified."


def test_options_become_keys_of_the_section() -> None:
    found = conf_section(
        {
            **LEAST,
            "scan.startup.mode": "latest-offset",
            "scan.incremental.snapshot.chunk.size": "100",
            "connect.timeout": "5s",
            "debezium.publication.name": "pub",
            "debezium.publication.autocreate.mode": "disabled",
            "debezium.database.sslmode": "require",
        },
        names_table=True,
    )
    assert found == {
        "type": "postgres",
        **LEAST,
        "connect-timeout": "5s",
        "publication": {"name": "pub", "create": False},
        "startup": {"mode": "latest-offset"},
        "snapshot": {"chunk-rows": "100"},
        "ssl": {"mode": "require"},
    }


def test_database_action_chooses_tables_by_flags() -> None:
    with pytest.raises(ConfigError, match="table-name cannot be set for postgres_sync_database"):
        conf_section(LEAST, names_table=False)


def test_options_of_other_readers_are_reported_and_unknown_ones_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        conf_section({**LEAST, "decoding.plugin.name": "wal2json"}, names_table=True)
    assert "key=decoding.plugin.name" in caplog.text
    with pytest.raises(ConfigError, match="postgres_conf has no option") as caught:
        conf_section({**LEAST, "slot.nam": "x"}, names_table=True)
    assert "slot.name" in (caught.value.hint or "")
