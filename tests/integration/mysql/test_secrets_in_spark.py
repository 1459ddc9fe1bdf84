"""Secrets that are plain values of a pipeline with Spark: from MySQL, and from files with a JDBC catalog in MySQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kafka.test_formats_alike import aliyun
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
FILES = """
source: {type: files, path: INBOX, value.format: aliyun-json}
"""
JDBC = (
    "metastore: jdbc, options: {uri: 'jdbc:mysql://127.0.0.1:PORT/names', jdbc.user: planted, jdbc.password: HUSH, "
    "jdbc.sslMode: DISABLED, jdbc.allowPublicKeyRetrieval: 'true', s3.secret-key: HUSH}"
)


def test_no_place_shows_plain_secrets_of_a_pipeline(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "DROP USER IF EXISTS planted")
    mysql.run(f"CREATE USER planted IDENTIFIED BY '{HUSH}'", "GRANT ALL ON *.* TO planted")
    try:
        source = SOURCE.replace("PORT", str(mysql.port)).replace("DATABASE", DATABASE)
        assert places_with_secrets(source, tmp_path) == []
    finally:
        mysql.run("DROP USER planted")


@pytest.mark.slow
def test_no_place_shows_plain_secrets_of_a_jdbc_catalog_and_a_pipeline_from_files(
    mysql: Playground, tmp_path: Path
) -> None:
    inbox, run = tmp_path / "inbox", tmp_path / "run"
    inbox.mkdir()
    run.mkdir()
    (inbox / "1.json").write_text(aliyun("INSERT", 1, v="a"))
    mysql.run("DROP USER IF EXISTS planted", "DROP DATABASE IF EXISTS names", "CREATE DATABASE names")
    mysql.run(f"CREATE USER planted IDENTIFIED BY '{HUSH}'", "GRANT ALL ON names.* TO planted")
    try:
        catalog = JDBC.replace("PORT", str(mysql.port))
        assert places_with_secrets(FILES.replace("INBOX", str(inbox)), run, catalog) == []
    finally:
        mysql.run("DROP USER planted", "DROP DATABASE names")
