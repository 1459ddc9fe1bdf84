"""Sessions with the setting spark.sql.extensions: Paimon's statements about tags, and names without a table."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from penstock.pipelines.spark_catalog.catalog_jar import CLASS_NAME, EXTENSIONS
from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.extended_session import answers, session_jar

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETUP = ["CREATE DATABASE lake.shop", "USE lake.shop", "CREATE TABLE t (id INT, tag STRING)"]
SETUP += ["INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')"]
STEPS = [
    ("ALTER TABLE t CREATE TAG 'one' AS OF VERSION 1 RETAIN 7 DAYS", "[]"),
    (r"alter table lake.shop.`t`\n  create tag\n  two -- as the user writes it\n;", "[]"),
    ("ALTER TABLE shop.t CREATE TAG 'two'", "refused: there is a tag 'two' already"),
    ("ALTER TABLE t CREATE TAG IF NOT EXISTS two", "[]"),
    ("ALTER TABLE t CREATE OR REPLACE TAG three AS OF VERSION 2", "[]"),
    ("ALTER TABLE t REPLACE TAG three AS OF VERSION 1 RETAIN 24 HOURS", "[]"),
    (r"ALTER TABLE t RENAME TAG 'two' TO 'it''s\\2'", "[]"),
    ("SHOW TAGS t", r"""[("it's\\\\2",), ('one',), ('three',)]"""),
    ("SHOW TAGS lake.shop.t", r"""[("it's\\\\2",), ('one',), ('three',)]"""),
    ("SELECT id FROM t VERSION AS OF 'three'", "[(1,)]"),
    ("ALTER TABLE t DELETE TAG one", "[]"),
    ("ALTER TABLE t DELETE TAG one", "refused: there is no tag 'one'"),
    ("ALTER TABLE t DELETE TAG IF EXISTS one", "[]"),
    (r"-- a note\n/* of two\n lines */ ALTER TABLE t /* here */ CREATE -- and here\n TAG noted", "[]"),
    (r"-- a note\nSHOW TAGS /* of */ t -- one", r"""[("it's\\\\2",), ('noted',), ('three',)]"""),
    ("ALTER TABLE t DELETE TAG noted", "[]"),
    ("ALTER TABLE t CREATE TAG four", "[]"),
    ("ALTER TABLE t CREATE TAG five", "[]"),
    ("ALTER TABLE t DELETE TAG `four,five`", "[]"),
    ("ALTER TABLE t DROP TAG three", "DELETE TAG 'x'"),
    ("ALTER TABLE t CREATE TAG x RETAIN 3 YEARS", "RETAIN 7 DAYS, HOURS or MINUTES"),
    ("ALTER TABLE spark_catalog.default.t CREATE TAG x", "spark_catalog does not support procedures"),
    ("CREATE FUNCTION f AS 'java.lang.String'", "the catalog keeps no functions"),
    ("CREATE FUNCTION lake.shop.f AS 'java.lang.String'", "CREATE TEMPORARY FUNCTION"),
    ("CREATE FUNCTION lake.shop.f(a INT) RETURNS INT RETURN a + 1", "CREATE TEMPORARY FUNCTION"),
    ("SELECT * FROM t CHANGES FROM VERSION 1 TO VERSION 2", "paimon_incremental_query('t', 1, 3)"),
    ("SELECT count(*) FROM (SELECT * FROM lake.shop.t CHANGES FROM VERSION 1)", "CHANGES FROM is not supported"),
    ("SHOW TAGS", "PARSE_SYNTAX_ERROR"),
    ("SELEC 1 AS tag", "PARSE_SYNTAX_ERROR"),
    ("ALTER /* a */ OTHER /* b */ TABLE t CREATE TAG x", "PARSE_SYNTAX_ERROR"),
    (r"-- a line of many\n" * 10_000 + "SELEC 1", "PARSE_SYNTAX_ERROR"),
    ("ALTER TABLE t RENAME COLUMN tag TO label", "[]"),
]
# The shell has not called register, which adds this refusal to sessions of Python.
NO_TABLE = "CREATE TABLE spark_catalog.default.made (id INT) USING penstock"


def test_statements_about_tags(tmp_path: Path) -> None:
    jar, warehouse = session_jar(tmp_path), tmp_path / "warehouse"
    shown = answers(tmp_path, jar, warehouse, [*SETUP, *(statement for statement, _ in STEPS)])
    assert shown[: len(SETUP)] == ["[]"] * len(SETUP)
    for (statement, expected), answer in zip(STEPS, shown[len(SETUP) :], strict=True):
        assert expected in answer, (statement, answer)
    assert sorted(Catalog(str(warehouse)).table("shop.t").tags) == ["it's\\\\2", "three"]


def test_the_shell_of_spark_knows_tags(tmp_path: Path) -> None:
    jar, warehouse = session_jar(tmp_path), tmp_path / "warehouse"
    settings = {
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.lake": CLASS_NAME,
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
    }
    flags = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    script = tmp_path / "statements.sql"
    script.write_text(";\n".join([*SETUP, "ALTER TABLE t CREATE TAG 'monday'", "SHOW TAGS t", f"{NO_TABLE};"]))
    done = subprocess.run(
        [f"{pyspark.__path__[0]}/bin/spark-sql", "--master", "local[2]", "--jars", str(jar), *flags, "-f", str(script)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"SPARK_HOME": pyspark.__path__[0]},
    )
    assert "monday" in done.stdout.splitlines(), done.stderr[-5000:]
    assert "spark_catalog.default.made was not created" in done.stderr, done.stderr[-5000:]
    assert list(Catalog(str(warehouse)).table("shop.t").tags) == ["monday"]
