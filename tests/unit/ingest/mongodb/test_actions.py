"""The options of --mongodb-conf as a section."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.ingest.mongodb.actions import ACTIONS, conf_section
from penstock.ingest.mongodb.config import MongoConfig

SMALLEST = {"hosts": "db:27017", "database": "shop", "collection": "orders"}


def test_options_of_the_peer_become_a_valid_section() -> None:
    conf = SMALLEST | {
        "username": "cdc",
        "connection.options": "replicaSet=rs0",
        "schema.start.mode": "Specified",
        "field.name": "_id,name",
        "parser.path": "$._id,$.name",
        "default.id.generation": "false",
        "scan.startup.mode": "timestamp",
        "scan.startup.timestamp-millis": "5000",
        "scan.full-changelog": "true",
    }
    found = MongoConfig.model_validate(conf_section(conf, names_table=True))
    assert found.documents.fields == (("_id", ("_id",)), ("name", ("name",)))
    assert not found.default_id_generation
    assert (found.startup.timestamp_millis, found.full_document) == (5000, "required")
    assert (found.database, found.collection, found.connection_options) == ("shop", "orders", "replicaSet=rs0")


@pytest.mark.parametrize("missing", list(SMALLEST))
def test_missing_options_are_named_as_the_peer_does(missing: str) -> None:
    conf = {key: value for key, value in SMALLEST.items() if key != missing}
    with pytest.raises(ConfigError, match=rf"mongodb_conf \[{missing}\] must be specified"):
        conf_section(conf, names_table=True)


def test_database_action_has_no_collection() -> None:
    with pytest.raises(ConfigError, match="collection cannot be set for mongodb_sync_database"):
        conf_section(SMALLEST, names_table=False)


def test_unknown_option_names_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="mongodb_conf has no option colection") as caught:
        conf_section(SMALLEST | {"colection": "x"}, names_table=True)
    assert "collection" in (caught.value.hint or "")
    conf_section(SMALLEST | {"batch.size": "10"}, names_table=True)
    assert "event=mongodb_conf_without_effect key=batch.size" in caplog.text


def test_mode_snapshot_ends_when_the_collections_are_read() -> None:
    words = [f"{key}={value}" for key, value in SMALLEST.items()]
    found = ACTIONS.translate({"mongodb-conf": [*words, "scan.startup.mode=snapshot"], "table": ["t"]})
    assert found.pipeline == {"until": "caught-up"}
