"""Catalogs whose names are in MySQL and PostgreSQL: in the shell spark-sql, over Spark Connect and in a Thrift server.

Each needs minutes on a busy machine, because each starts a database server and a JVM.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import penstock
from penstock.pipelines.spark.session_settings import prepare_environment
from penstock.pipelines.spark_catalog.catalog_jar import CLASS_NAME
from tests.integration.mysql.conftest import mysql
from tests.integration.postgres.conftest import server_port
from tests.integration.spark_catalog.extended_session import session_jar
from tests.integration.spark_catalog.test_metastores import in_mysql, in_postgres
from tests.servers.launch import free_port
from tests.waiting import until

__all__ = ["in_mysql", "in_postgres", "mysql", "server_port"]
# A machine with ten processes for each core needs ten minutes for the server and its three statements.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

HOME = pyspark.__path__[0]
STATEMENTS = """
CREATE DATABASE lake.shop;
CREATE TABLE lake.shop.orders (id BIGINT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1');
INSERT INTO lake.shop.orders SELECT id, 'a' FROM range(10);
MERGE INTO lake.shop.orders t USING (SELECT id FROM range(5, 15)) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'b' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'c');
CALL lake.sys.create_tag('shop.orders', 'merged');
ALTER TABLE lake.shop.orders RENAME TO lake.shop.sales;
CREATE TABLE lake.shop.late AS SELECT id FROM lake.shop.sales VERSION AS OF 1;
DROP TABLE lake.shop.late;
"""
CLIENT = """
import sys
from pyspark.sql import SparkSession
import penstock

warehouse, *words = sys.argv[1:]
options = dict(word.split("=", 1) for word in words)
settings = {"spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
penstock.register(spark, catalog="lake", warehouse=warehouse, options=options)
for statement in sys.stdin.read().split(";"):
    if statement.strip():
        spark.sql(statement).collect()
print([tuple(row) for row in spark.sql("SELECT v, count(*) FROM lake.shop.sales GROUP BY v ORDER BY v").collect()])
spark.stop()
"""


def settings(warehouse: Path, options: Mapping[str, str]) -> list[str]:
    catalog = {"": CLASS_NAME, ".warehouse": str(warehouse), **{f".{key}": text for key, text in options.items()}}
    found = {f"spark.sql.catalog.lake{key}": text for key, text in catalog.items()}
    found |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    found["spark.sql.catalogImplementation"] = "in-memory"
    return [word for key, text in found.items() for word in ("--conf", f"{key}={text}")]


def environment() -> dict[str, str]:
    prepare_environment()
    return os.environ | {"SPARK_HOME": HOME}


def run(words: list[str], folder: Path, text: str | None = None) -> str:
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, timeout=1400, check=False, cwd=folder, env=environment()
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def check_sales(warehouse: Path, options: Mapping[str, str]) -> None:
    catalog = penstock.Catalog(warehouse, dict(options))
    assert catalog.tables("shop") == ["sales"]
    sales = catalog.table("shop.sales")
    found = {row["id"]: row["v"] for row in sales.scan().to_arrow().to_pylist()}
    assert found == dict.fromkeys(range(5), "a") | dict.fromkeys(range(5, 10), "b") | dict.fromkeys(range(10, 15), "c")
    assert sales.tags == {"merged": 2}


@pytest.mark.mysql
def test_the_shell_of_spark_uses_names_in_mysql(tmp_path: Path, in_mysql: dict[str, str]) -> None:
    options = {"metastore": "jdbc", "lock.enabled": "true", **in_mysql}
    script = tmp_path / "statements.sql"
    script.write_text(f"{STATEMENTS} SELECT count(*), 'rows' FROM lake.shop.sales;")
    flags = ["--master", "local[2]", "--jars", str(session_jar(tmp_path)), *settings(tmp_path / "lake", options)]
    assert "15\trows" in run([f"{HOME}/bin/spark-sql", *flags, "-f", str(script)], tmp_path)
    check_sales(tmp_path / "lake", options)


@pytest.mark.postgres
def test_spark_connect_uses_names_in_postgres(tmp_path: Path, in_postgres: dict[str, str]) -> None:
    pytest.importorskip("grpc", reason="CANNOT RUN HERE: pip install 'pyspark[connect]'")
    options = {"metastore": "jdbc", "lock.enabled": "true", **in_postgres}
    words = [f"{key}={text}" for key, text in options.items()]
    said = run([sys.executable, "-c", CLIENT, str(tmp_path / "lake"), *words], tmp_path, STATEMENTS)
    assert "[('a', 5), ('b', 5), ('c', 5)]" in said
    check_sales(tmp_path / "lake", options)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def thrift_server(folder: Path, flags: list[str]) -> Iterator[int]:
    port = free_port()
    name = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    place = ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    with (folder / "server.log").open("w") as log:
        command = [f"{HOME}/bin/spark-submit", *flags, "--class", name, "spark-internal", *place]
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment())
    try:
        until(lambda: listens(port) or server.poll() is not None, "the Thrift server")
        yield port
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.mysql
def test_a_thrift_server_uses_names_in_mysql(tmp_path: Path, in_mysql: dict[str, str]) -> None:
    options = {"metastore": "jdbc", "lock.enabled": "true", **in_mysql}
    script = tmp_path / "statements.sql"
    script.write_text(
        "CREATE DATABASE lake.shop; CREATE TABLE lake.shop.log AS SELECT 7 AS id; SELECT * FROM lake.shop.log;\n"
    )
    flags = ["--master", "local[2]", "--jars", str(session_jar(tmp_path)), *settings(tmp_path / "lake", options)]
    with thrift_server(tmp_path, flags) as port:
        address = f"jdbc:hive2://127.0.0.1:{port}/default"
        beeline = [f"{HOME}/bin/beeline", "-u", address, "--outputformat=tsv2", "-f", str(script)]
        assert "\n7\n" in run(beeline, tmp_path), (tmp_path / "server.log").read_text()[-5000:]
    assert penstock.Catalog(tmp_path / "lake", options).table("shop.log").count() == 1
