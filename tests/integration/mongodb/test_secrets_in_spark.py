"""Secrets that are plain values of a pipeline from MongoDB with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pymongo import MongoClient

from tests.integration.mongodb.sync import DATABASE
from tests.integration.mongodb.test_security import ROLES
from tests.integration.secrets_in_spark import HUSH, places_with_secrets
from tests.servers.launch import free_port, start, stop

pytestmark = [pytest.mark.mongodb, pytest.mark.spark, pytest.mark.slow]
SOURCE = """
source:
  type: mongodb
  hosts: 127.0.0.1:PORT
  username: planted
  password: HUSH
  connection.options: authSource=admin&directConnection=true
  database: DATABASE
"""


def test_no_place_shows_plain_secrets_of_a_pipeline(tmp_path: Path) -> None:
    server, run, port = tmp_path / "server", tmp_path / "run", free_port()
    run.mkdir()
    start("mongodb", server, port)
    with MongoClient("127.0.0.1", port) as made:
        made.admin.command("createUser", "planted", pwd=HUSH, roles=ROLES)
        made[DATABASE].orders.insert_one({"_id": 1, "v": "a"})
    stop("mongodb", server)
    start("mongodb", server, port, "--auth")
    try:
        source = SOURCE.replace("PORT", str(port)).replace("DATABASE", DATABASE)
        assert places_with_secrets(source, run) == []
    finally:
        stop("mongodb", server)
