"""Secrets that are plain values of a pipeline from PostgreSQL with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.postgres.sync import DATABASE, PgPlayground
from tests.integration.secrets_in_spark import HUSH, places_with_secrets

pytestmark = [pytest.mark.postgres, pytest.mark.spark]
SOURCE = """
source:
  type: postgres
  hostname: 127.0.0.1
  port: PORT
  username: planted
  password: HUSH
  database-name: DATABASE
  slot.name: planted_slot
"""


def test_no_place_shows_plain_secrets_of_a_pipeline(server: PgPlayground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "DROP ROLE IF EXISTS planted")
    server.run(f"CREATE ROLE planted SUPERUSER LOGIN PASSWORD '{HUSH}'")
    try:
        source = SOURCE.replace("PORT", str(server.port)).replace("DATABASE", DATABASE)
        assert places_with_secrets(source, tmp_path) == []
    finally:
        server.run("DROP OWNED BY planted CASCADE", "DROP ROLE planted")
