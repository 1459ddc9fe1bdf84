"""Patterns that are names let the server filter."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.mongodb.config import MongoConfig
from penstock.ingest.mongodb.settings import mongo_settings
from penstock.storage.state_folder import StateFolder


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("shop", "shop"), ("my-shop_1", "my-shop_1"), (r"a\.b", "a.b"), ("shop.*", None), ("a|b", None), ("a.b", None)],
)
def test_pattern_that_is_a_name(pattern: str, name: str | None, tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path))
    config = MongoConfig.model_validate(
        {"type": "mongodb", "hosts": "db", "database": pattern, "collection": pattern, "password": "${PW}"}
    )
    settings = mongo_settings(config, SourceRequest(state=folder, snapshot_requests=folder))
    assert (settings.database, settings.collection) == (name, name)
    assert "PW" not in repr(settings)
