"""Secrets that are plain values of a pipeline from MySQL with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.secrets_in_spark import HUSH, places_with_secrets

pytestmark = [pytest.mark.mysql, pytest.mark.spark]
SOURCE = """
source:
  type: mysql
  hostname: 127.0.0.1
  port: PORT
  username: planted
  password: HUSH
  ssl: {mode: disabled, allow-public-key-retrieval: true}
  database-name: DATABASE
"""


def test_no_place_shows_plain_secrets_of_a_pipeline(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "DROP USER IF EXISTS planted")
    mysql.run(f"CREATE USER planted IDENTIFIED BY '{HUSH}'", "GRANT ALL ON *.* TO planted")
    try:
        source = SOURCE.replace("PORT", str(mysql.port)).replace("DATABASE", DATABASE)
        assert places_with_secrets(source, tmp_path) == []
    finally:
        mysql.run("DROP USER planted")
