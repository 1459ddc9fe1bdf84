"""Names in Spark's own catalog after `penstock.register` without a catalog, and over Spark Connect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.commands.main import main
from penstock.pipelines.spark.session_settings import prepare_environment
from penstock.pipelines.spark_catalog.catalog_jar import EXTENSIONS
from penstock.table.catalog.catalog import Catalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Each line is a statement; what it shows is behind "ANSWER", a refusal behind "refused: ".
SESSION = r"""
import sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
import penstock

kind, warehouse, *settings = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false")
builder = builder.remote("local[2]") if "connect" in kind else builder.master("local[2]")
for text in settings:
    builder = builder.config(*text.split("=", 1))
spark = builder.getOrCreate()
if kind == "unchecked":
    from penstock.pipelines.spark_catalog.source import CatalogDataSource
    spark.dataSource.register(CatalogDataSource)
for _ in range(0 if kind == "unchecked" else 2):
    penstock.register(spark, **({"catalog": "lake", "warehouse": warehouse} if "catalog" in kind else {}))
for line in sys.stdin.read().splitlines():
    try:
        shown = [tuple(row) for row in spark.sql(line).collect()]
    except PySparkException as refused:
        shown = "refused: " + " ".join(str(refused).split())[:300]
    print("ANSWER", shown)
spark.stop()
"""
REFUSED = [
    "CREATE TABLE m (id INT) USING penstock",
    "CREATE TABLE m USING paimon AS SELECT 1 AS id",
    "REPLACE TABLE n (id INT) USING paimon",
    "ALTER TABLE n ADD COLUMN more INT",
    "ALTER TABLE n CLUSTER BY (id)",
    "ALTER TABLE n SET TBLPROPERTIES ('bucket' = '4')",
    "COMMENT ON TABLE n IS 'c'",
]
OTHERS = ["CREATE TABLE files (id INT) USING parquet", "ALTER TABLE files ADD COLUMN more INT"]
TAGS = ["ALTER TABLE lake.shop.t CREATE TAG 'one'", "ALTER TABLE lake.shop.t RENAME TAG 'one' TO 'two'"]


def answers(folder: Path, kind: str, statements: list[str], *settings: str) -> list[str]:
    prepare_environment()
    command = [sys.executable, "-c", SESSION, kind, str(folder / "warehouse"), *settings]
    done = subprocess.run(
        command, input="\n".join(statements), capture_output=True, text=True, timeout=400, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "names_not_checked" not in done.stderr
    return [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")]


@pytest.mark.parametrize("kind", ["classic", "connect", "connect with a catalog"])
def test_statements_that_would_change_only_the_entry_are_refused(tmp_path: Path, kind: str) -> None:
    if "connect" in kind:
        pytest.importorskip("grpc", reason="CANNOT RUN HERE: pip install 'pyspark[connect]'")
    catalog = Catalog(tmp_path / "other", {"local.sync": "false"})
    catalog.create_database("shop")
    table = catalog.create_table("shop.n", [("id", "INT"), ("name", "STRING")])
    named = [f"CREATE TABLE n USING penstock LOCATION '{table.path}'", "INSERT INTO n VALUES (1, 'a')"]

    found = answers(tmp_path, kind, [*named, *REFUSED, "SELECT * FROM n", *OTHERS, "SHOW TABLES"])

    assert found[:2] == ["[]", "[]"]
    for statement, answer in zip(REFUSED, found[2:], strict=False):
        assert answer.startswith("refused: "), statement
        assert "not created" in answer or "was not changed" in answer, (statement, answer)
        assert "lake.db.t" in answer, (statement, answer)
    assert found[2 + len(REFUSED) :] == [
        "[(1, 'a')]",
        "[]",
        "[]",
        "[('default', 'files', False), ('default', 'n', False)]",
    ]


def test_a_name_that_a_session_without_checks_has_altered_is_refused_by_its_next_use(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "other", {"local.sync": "false"})
    catalog.create_database("shop")
    table = catalog.create_table("shop.n", [("id", "INT"), ("name", "STRING")])
    named = [f"CREATE TABLE n USING penstock LOCATION '{table.path}'", "INSERT INTO n VALUES (1, 'a')"]
    used = ["SELECT * FROM n", "INSERT INTO n VALUES (2, 'b', 3)"]

    found = answers(tmp_path, "unchecked", [*named, "ALTER TABLE n ADD COLUMN more INT", *used])

    assert found[:3] == ["[]", "[]", "[]"]
    for statement, answer in zip(used, found[3:], strict=True):
        assert answer.startswith("refused: "), statement
        assert "ALTER TABLE changed the columns in Spark's catalog, but not the table" in answer
        assert "Traceback" not in answer
    assert catalog.table("shop.n").scan().to_arrow().to_pylist() == [{"id": 1, "name": "a"}]
    assert catalog.table("shop.n").schema.names == ["id", "name"]


def test_a_server_of_spark_connect_with_the_extension_knows_tags(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="CANNOT RUN HERE: pip install 'pyspark[connect]'")
    jar = tmp_path / "penstock-spark.jar"
    assert main(["spark-jar", str(jar)]) == 0
    made = ["CREATE DATABASE lake.shop", "CREATE TABLE lake.shop.t (id INT)", "INSERT INTO lake.shop.t VALUES (1)"]
    settings = [f"spark.jars={jar}", f"spark.sql.extensions={EXTENSIONS}"]

    kind = "connect with a catalog"
    found = answers(tmp_path, kind, [*made, *TAGS, "SHOW TAGS lake.shop.t", REFUSED[0]], *settings)

    assert found[:-1] == ["[]"] * 5 + ["[('two',)]"]
    assert "was not created" in found[-1]
    assert list(Catalog(tmp_path / "warehouse").table("shop.t").tags) == ["two"]
