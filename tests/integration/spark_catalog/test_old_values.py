"""UPDATE and MERGE of Spark read old values of the columns that need them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

UPDATE = "MERGE INTO {0} t USING (SELECT 1 id, 'new' v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"


def create(spark: SparkSession, name: str, **options: str) -> None:
    given = "".join(f", '{key.replace('_', '-')}' = '{value}'" for key, value in options.items())
    spark.sql(f"""CREATE TABLE {name} (n INT, id INT NOT NULL, v STRING, w STRING, PRIMARY KEY (id))
        TBLPROPERTIES ('bucket' = '2'{given})""")
    spark.sql(f"INSERT INTO {name} VALUES (7, 1, 'a', 'x'), (8, 2, 'b', 'y')")


def columns_read(spark: SparkSession, statement: str) -> list[str]:
    """The columns that the first scan of a statement reads."""
    plan = str(spark.sql(f"EXPLAIN {statement}").first()[0])
    scans = [line for line in plan.splitlines() if "BatchScan" in line]
    assert scans, plan
    names = scans[0].split("[", 1)[1].split("]", 1)[0].split(", ")
    return [name.split("#")[0] for name in names]


def old_columns(spark: SparkSession, statement: str) -> list[str]:
    """Those of them that have old values."""
    return [name for name in columns_read(spark, statement) if name.startswith("_old_")]


def test_updates_without_a_changelog_read_no_old_values(spark: SparkSession) -> None:
    create(spark, "plain")
    assert old_columns(spark, UPDATE.format("plain")) == []
    assert old_columns(spark, "UPDATE plain SET v = 'u' WHERE n = 8") == []
    spark.sql(UPDATE.format("plain"))
    spark.sql("UPDATE plain SET v = 'u' WHERE n = 8")
    assert rows(spark, "SELECT * FROM plain") == [(7, 1, "new", "x"), (8, 2, "u", "y")]
    starred = "(SELECT n, id + {0} id, 'star' v, w FROM plain) s"
    merge = f"MERGE INTO plain t USING {starred} ON t.n = s.n WHEN MATCHED THEN UPDATE SET *"
    assert "'id' is a part of the key and cannot be changed" in refusal(spark, merge.format(1))
    spark.sql(merge.format(0))
    assert rows(spark, "SELECT * FROM plain") == [(7, 1, "star", "x"), (8, 2, "star", "y")]


def test_deletes_have_the_values_of_all_columns(spark: SparkSession) -> None:
    create(spark, "deleted")
    delete = "DELETE FROM deleted WHERE v = 'a'"
    assert old_columns(spark, delete) == ["_old_n", "_old_v", "_old_w"]
    spark.sql(delete)
    merge = "MERGE INTO deleted t USING (SELECT 2 id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    spark.sql(merge)
    gone = rows(spark, "SELECT * FROM deleted WITH (`incremental-between` = '1,3')")
    assert gone == [("-D", 7, 1, "a", "x"), ("-D", 8, 2, "b", "y")]


def test_updates_with_a_changelog_have_the_old_row(spark: SparkSession) -> None:
    create(spark, "logged", changelog_producer="input")
    # The update keeps n and w, so their old values are those that it writes; it does not write that of v.
    assert columns_read(spark, UPDATE.format("logged")) == ["n", "id", "w", "_old_v"]
    spark.sql(UPDATE.format("logged"))
    found = rows(spark, "SELECT * FROM logged WITH (`incremental-between` = '1,2')")
    assert found == [("+U", 7, 1, "new", "x"), ("-U", 7, 1, "a", "x")]


def test_a_merge_reads_each_column_once(spark: SparkSession) -> None:
    create(spark, "once", changelog_producer="input")
    merge = """MERGE INTO once t USING (SELECT id + 1 id, concat(v, '2') v FROM once) s ON t.id = s.id AND t.n > 0
        WHEN MATCHED AND t.w = 'y' AND t._old_v = 'b' THEN DELETE
        WHEN NOT MATCHED THEN INSERT (n, id, v, w) VALUES (9, s.id, s.v, 'z')
        WHEN NOT MATCHED BY SOURCE AND t.v = 'a' THEN UPDATE SET n = t.n + 10, w = t.v"""
    assert columns_read(spark, merge) == ["n", "id", "v", "w"]
    spark.sql(merge)
    assert rows(spark, "SELECT * FROM once") == [(17, 1, "a", "a"), (9, 3, "b2", "z")]
    found = rows(spark, "SELECT * FROM once WITH (`incremental-between` = '1,2')")
    assert found == [("+I", 9, 3, "b2", "z"), ("+U", 17, 1, "a", "a"), ("-D", 8, 2, "b", "y"), ("-U", 7, 1, "a", "x")]


def test_a_source_may_have_columns_named_like_old_values(spark: SparkSession) -> None:
    """Such a table could not be read in the catalog if it had the column without the prefix too."""
    create(spark, "target", changelog_producer="input")
    spark.sql("CREATE TABLE source (id INT NOT NULL, v STRING, _old_v STRING, _old_n INT, PRIMARY KEY (id))")
    spark.sql("INSERT INTO source VALUES (1, 'new', 'before', 5), (3, 'more', 'earlier', 6)")
    assert rows(spark, "SELECT _old_n, _old_v, v FROM source") == [(5, "before", "new"), (6, "earlier", "more")]
    spark.sql("""MERGE INTO target t USING source s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = s.v, w = s._old_v
        WHEN NOT MATCHED THEN INSERT (n, id, v, w) VALUES (s._old_n, s.id, s.v, s._old_v)""")
    wanted = [(6, 3, "more", "earlier"), (7, 1, "new", "before"), (8, 2, "b", "y")]
    assert rows(spark, "SELECT * FROM target") == wanted
