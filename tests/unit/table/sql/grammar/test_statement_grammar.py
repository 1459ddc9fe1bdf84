"""Statements of both dialects as values, and where errors are found."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.table.schema.changes import (
    AddColumn,
    DropColumn,
    RenameColumn,
    ResetOption,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from penstock.table.schema.type_text import written
from penstock.table.sql.grammar.row_statements import Delete, Insert, Merge, MergeClause, Update
from penstock.table.sql.grammar.scripts import script_parts
from penstock.table.sql.grammar.session_statements import CreateCatalog, DropCatalog, SessionOption, Use, View
from penstock.table.sql.grammar.statement_grammar import read_statement
from penstock.table.sql.grammar.statements import (
    AlterDatabase,
    CallProcedure,
    CreateDatabase,
    Describe,
    DropDatabase,
    Show,
    SqlQuery,
    Statement,
)
from penstock.table.sql.grammar.table_statements import (
    AlterTable,
    CreateTable,
    CreateView,
    DropPartitions,
    DropTable,
    DropView,
    RenameTable,
    RenameTag,
    RenameView,
    TruncateTable,
)


def created(text: str) -> CreateTable:
    statement = read_statement(text)
    assert isinstance(statement, CreateTable)
    return statement


def columns(text: str) -> list[tuple[str, str]]:
    return [(column.name, written(column.type)) for column in created(text).columns]


def test_both_dialects_create_the_same_table() -> None:
    of_flink = created(
        "CREATE TABLE shop.orders (id BIGINT, amount DECIMAL(10, 2), dt STRING, PRIMARY KEY (id, dt) NOT ENFORCED) "
        "COMMENT 'all' PARTITIONED BY (dt) WITH ('connector' = 'paimon', 'bucket' = '2')"
    )
    of_spark = created(
        "create table shop.orders (id LONG, amount DECIMAL(10, 2), dt STRING, CONSTRAINT k PRIMARY KEY (id, dt)) "
        "USING paimon COMMENT 'all' PARTITIONED BY (dt) TBLPROPERTIES (bucket = 2)"
    )
    assert of_flink == of_spark
    assert (of_flink.keys, of_flink.partitions) == (("id", "dt"), ("dt",))
    assert (of_flink.options, of_flink.comment) == ({"bucket": "2"}, "all")


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        ("c INT NOT NULL", "INT NOT NULL"),
        ("c STRUCT<a: LONG, timestamp: DATE>", "ROW<`a` BIGINT, `timestamp` DATE>"),
        ("c ROW<a INT, byte STRING>", "ROW<`a` INT, `byte` STRING>"),
        ("c MAP<STRING, ARRAY<SHORT>>", "MAP<STRING, ARRAY<SMALLINT>>"),
        ("c TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("c TIMESTAMP_NTZ", "TIMESTAMP(6)"),
        ("c TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("c TEXT", "STRING"),
    ],
)
def test_type_names_of_all_engines_are_parsed(column: str, type_: str) -> None:
    assert columns(f"CREATE TABLE t ({column})") == [("c", type_)]


def test_a_timestamp_of_spark_has_a_time_zone() -> None:
    of_spark = columns("CREATE TABLE t (a TIMESTAMP, b BINARY) USING paimon")
    assert of_spark == [("a", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), ("b", "BYTES")]
    assert columns("CREATE TABLE t (a TIMESTAMP, b BINARY)") == [("a", "TIMESTAMP(6)"), ("b", "BINARY(1)")]


def test_columns_have_defaults_comments_and_keys() -> None:
    statement = created(
        "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v STRING DEFAULT 'it''s' COMMENT 'x', n INT DEFAULT -1)"
    )
    assert statement.keys == ("id",)
    assert [(column.default, column.description) for column in statement.columns] == [
        (None, None),
        ("it's", "x"),
        ("-1", None),
    ]


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "CREATE DATABASE IF NOT EXISTS d COMMENT 'x' WITH ('a' = 'b')",
            CreateDatabase("d", True, {"comment": "x", "a": "b"}),
        ),
        ("DROP SCHEMA IF EXISTS d CASCADE", DropDatabase("d", True, True)),
        ("DROP DATABASE d RESTRICT", DropDatabase("d", False, False)),
        ("DROP TABLE IF EXISTS `d`.`t`", DropTable(("d", "t"), True)),
        ("ALTER TABLE t RENAME TO d.u", RenameTable(("t",), False, ("d", "u"))),
        ("TRUNCATE TABLE d.t", TruncateTable(("d", "t"))),
        ("TRUNCATE TABLE t PARTITION (dt = '1', h = 2)", DropPartitions(("t",), ({"dt": "1", "h": "2"},))),
        (
            "ALTER TABLE t DROP IF EXISTS PARTITION (dt='1'), PARTITION (dt='2')",
            DropPartitions(("t",), ({"dt": "1"}, {"dt": "2"})),
        ),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", View("v", "CREATE TEMPORARY VIEW v AS SELECT 1")),
        ("DROP TEMPORARY VIEW IF EXISTS v", View("v", 'DROP VIEW IF EXISTS "v"', dropped=True)),
        ("DROP VIEW v", View("v", 'DROP VIEW IF EXISTS "v"', dropped=True, must_exist=True, or_kept=True)),
        (
            "CREATE VIEW IF NOT EXISTS d.v (a COMMENT 'x', b) TBLPROPERTIES ('k' = 'l') COMMENT 'y' AS SELECT 1, 2",
            CreateView(("d", "v"), "SELECT 1, 2", (("a", "x"), ("b", None)), "y", {"k": "l"}, if_not_exists=True),
        ),
        ("CREATE OR REPLACE VIEW v AS FROM t", CreateView(("v",), "FROM t", replaces="any")),
        ("ALTER VIEW v AS SELECT 1", CreateView(("v",), "SELECT 1", replaces="existing")),
        ("ALTER VIEW IF EXISTS d.v RENAME TO w", RenameView(("d", "v"), True, ("w",))),
        ("DROP VIEW IF EXISTS d.v", DropView(("d", "v"), if_exists=True)),
        ("ALTER DATABASE d SET ('a' = 'x')", AlterDatabase("d", {"a": "x"})),
        ("ALTER SCHEMA d SET DBPROPERTIES ('a' = 'x', 'b' = 'y')", AlterDatabase("d", {"a": "x", "b": "y"})),
        ("ALTER DATABASE d UNSET DBPROPERTIES IF EXISTS ('a')", AlterDatabase("d", {"a": None})),
        ("COMMENT ON DATABASE d IS 'x'", AlterDatabase("d", {"comment": "x"})),
        ("COMMENT ON NAMESPACE d IS NULL", AlterDatabase("d", {"comment": None})),
        ("USE d", Use("d")),
        ("USE c.d", Use("d", "c")),
        ("USE CATALOG c", Use(None, "c")),
        (
            "CREATE CATALOG IF NOT EXISTS c WITH ('type' = 'paimon', 'warehouse' = '/x')",
            CreateCatalog("c", True, {"warehouse": "/x"}),
        ),
        ("DROP CATALOG IF EXISTS c", DropCatalog("c", True)),
        ("SHOW CURRENT CATALOG", Show("current catalog")),
        ("SET 'a.b' = 'c'", SessionOption("a.b", "c")),
        ("SET a.b-c = d", SessionOption("a.b-c", "d")),
        ("RESET a", SessionOption("a", None)),
        ("SHOW TABLES IN d LIKE 'o*'", Show("tables", ("d",), "o*")),
        ("SHOW TBLPROPERTIES t ('bucket')", Show("tblproperties", ("t",), key="bucket")),
        ("DESC d.t", Describe(("d", "t"))),
        ("DESC EXTENDED d.t", Describe(("d", "t"), extended=True)),
        ("DESCRIBE TABLE EXTENDED t", Describe(("t",), extended=True)),
        ("DESCRIBE FORMATTED t", Describe(("t",), extended=True)),
        ("DESCRIBE extended", Describe(("extended",))),
        ("DESCRIBE TABLE extended", Describe(("extended",))),
        ("DESCRIBE TABLE table.t", Describe(("table", "t"))),
        ("DESCRIBE DATABASE d", Describe(("d",), database=True)),
        ("TABLE t", SqlQuery("SELECT * FROM t")),
        ("CALL sys.create_tag('d.t', tag => 'x')", CallProcedure("create_tag", ("'d.t'",), {"tag": "'x'"})),
        ("INSERT INTO t (a, b) VALUES (1, ')')", Insert(("t",), "VALUES (1, ')')", columns=("a", "b"))),
        ("INSERT INTO t (SELECT 1)", Insert(("t",), "(SELECT 1)")),
        ("INSERT INTO t BY NAME SELECT 1 AS a", Insert(("t",), "SELECT 1 AS a", by_name=True)),
        (
            "INSERT OVERWRITE TABLE t /*+ OPTIONS('a' = 'b') */ PARTITION (dt = '1', h) SELECT 1",
            Insert(("t",), "SELECT 1", overwrite=True, partition={"dt": "'1'", "h": None}, options={"a": "b"}),
        ),
        (
            "UPDATE t AS x SET a = CASE WHEN b THEN 1 ELSE 2 END, x.b = f(1, 2) WHERE c = 'where'",
            Update(("t",), "x", ((("a",), "CASE WHEN b THEN 1 ELSE 2 END"), (("b",), "f(1, 2)")), "c = 'where'"),
        ),
        ("DELETE FROM t", Delete(("t",), None, None)),
        ("DELETE FROM t x WHERE a IN (SELECT 1)", Delete(("t",), "x", "a IN (SELECT 1)")),
    ],
)
def test_statements_are_read(text: str, statement: Statement) -> None:
    assert read_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("ADD COLUMN c INT COMMENT 'x' AFTER b", AddColumn("c", "INT", "x", after="b")),
        ("ADD c INT FIRST", AddColumn("c", "INT", first=True)),
        ("RENAME COLUMN a TO b", RenameColumn("a", "b")),
        ("RENAME s.a TO b", RenameColumn(("s", "a"), "b")),
        ("DROP COLUMN a", DropColumn("a")),
        ("DROP (a)", DropColumn("a")),
        ("ALTER COLUMN a TYPE BIGINT", UpdateColumnType("a", "BIGINT", keep_nullability=True)),
        ("ALTER COLUMN a COMMENT 'x'", UpdateColumnComment("a", "x")),
        ("ALTER COLUMN a SET NOT NULL", UpdateColumnNullability("a", nullable=False)),
        ("ALTER COLUMN a DROP NOT NULL", UpdateColumnNullability("a", nullable=True)),
        ("ALTER COLUMN a SET DEFAULT 7", UpdateColumnDefault("a", "7")),
        ("ALTER COLUMN a DROP DEFAULT", UpdateColumnDefault("a", None)),
        ("ALTER COLUMN a SET DEFAULT DATE '2024-01-31'", UpdateColumnDefault("a", "2024-01-31")),
        ("ALTER COLUMN a SET DEFAULT timestamp_ntz'2024-01-31 10:00'", UpdateColumnDefault("a", "2024-01-31 10:00")),
        ("ALTER COLUMN a FIRST", UpdateColumnPosition("a", first=True)),
        ("ALTER COLUMN a AFTER b", UpdateColumnPosition("a", after="b")),
        ("SET ('a' = 'b')", SetOption("a", "b")),
        ("SET TBLPROPERTIES ('a' = 'b')", SetOption("a", "b")),
        ("RESET ('a')", ResetOption("a")),
        ("UNSET TBLPROPERTIES IF EXISTS ('a')", ResetOption("a", if_exists=True)),
        ("COMMENT 'x'", UpdateComment("x")),
    ],
)
def test_every_change_of_a_table_is_read(text: str, change: object) -> None:
    assert read_statement(f"ALTER TABLE t {text}") == AlterTable(("t",), False, (change,))  # type: ignore[arg-type]  # one of them


def test_a_merge_is_read_with_all_clauses() -> None:
    statement = read_statement(
        "MERGE INTO d.t AS t USING (SELECT * FROM s) AS s ON t.id = s.id "
        "WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED BY TARGET AND s.id > 0 THEN INSERT (id, v) VALUES (s.id, f(s.v, 1)) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = CASE WHEN t.v THEN 1 END"
    )
    assert statement == Merge(
        ("d", "t"),
        "t",
        "(SELECT * FROM s)",
        "s",
        "t.id = s.id",
        (
            MergeClause("matched", "delete", "s.gone"),
            MergeClause("matched", "update", None),
            MergeClause("not matched", "insert", "s.id > 0", ((("id",), "s.id"), (("v",), "f(s.v, 1)"))),
            MergeClause("not matched by source", "update", None, ((("v",), "CASE WHEN t.v THEN 1 END"),)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("selekt 1", "SELEKT is not a supported statement", 1, 1),
        ("OPTIMIZE t", "OPTIMIZE is not a supported statement", 1, 1),
        ("CREATE TABLE t (\n  a INT,\n  b INTT\n)", "'INTT' is not a known type", 3, 5),
        ("CREATE TABLE t (a INT) LIKE u", "a table LIKE another has its columns", 1, 24),
        ("CREATE TABLE t LIKE u (EXCLUDING ALL)", "EXCLUDING ALL is not supported", 1, 37),
        ("CREATE TABLE t LIKE u (EXCLUDING PARTITIONS)", "LIKE copies keys and partitions", 1, 44),
        ("CREATE TABLE t LIKE u (EXCLUDING COLUMNS)", "EXCLUDING OPTIONS or INCLUDING OPTIONS", 1, 34),
        ("CREATE TABLE t (a INT,, b INT)", "a name is expected", 1, 23),
        ("CREATE TABLE t (a INT, WATERMARK FOR b AS b)", "a column 'b' that the table does not have", 1, 44),
        ("CREATE TABLE t (a TIMESTAMP(6), WATERMARK FOR a AS a)", "the column 'a' cannot have a watermark", 1, 53),
        ("CREATE TABLE t (a AS b + 1)", "a table needs columns that are not computed", 1, 27),
        ("CREATE TABLE t (a INT, a AS b + 1)", "the column 'a' is named twice", 1, 34),
        ("CREATE TABLE t (a INT, b AS)", "an expression is expected", 1, 28),
        ("CREATE TABLE t (a INT, WATERMARK FOR a AS)", "an expression is expected", 1, 42),
        ("CREATE TABLE t (a INT, b INT METADATA FROM 'c')", "METADATA is not supported in a column", 1, 30),
        ("CREATE TABLE t (a INT) USING parquet", "'parquet' tables are not created here", 1, 30),
        ("CREATE TABLE t LIKE u LOCATION '/x'", "created from columns only", 1, 36),
        ("CREATE TABLE t (a INT) AS SELECT 1", "has the query's columns", 1, 27),
        ("CREATE TABLE t", "a table needs columns", 1, 15),
        ("CREATE TABLE t (a INT DEFAULT now())", "is not a literal", 1, 36),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", "IF NOT EXISTS contradicts REPLACE", 1, 25),
        ("CREATE VIEW v", "COMMENT, TBLPROPERTIES or AS is expected", 1, 14),
        ("CREATE VIEW v AS INSERT INTO t VALUES (1)", "a query is expected", 1, 18),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "IF NOT EXISTS contradicts REPLACE", 1, 24),
        ("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')", "ALTER VIEW is followed by RENAME TO or AS", 1, 14),
        ("CREATE TEMPORARY TABLE t (a INT)", "a temporary table needs the path", 1, 33),
        ("CREATE CATALOG c WITH ('type' = 'paimon')", "a catalog needs the option 'warehouse'", 1, 42),
        ("CREATE CATALOG c WITH ('type' = 'jdbc', 'warehouse' = '/x')", "type 'jdbc' is not supported", 1, 60),
        ("USE a.b.c", "a database is expected", 1, 10),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION is not supported", 1, 8),
        ("ALTER TABLE t ADD WATERMARK FOR a", "AS is expected", 1, 34),
        ("ALTER TABLE t ADD b AS a + 1", "a computed column is not supported here", 1, 21),
        ("ALTER TABLE t frob", "MODIFY or ALTER COLUMN is expected", 1, 15),
        ("INSERT INTO t ON CONFLICT", "a query or VALUES is expected", 1, 15),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT 1", "INSERT after WITH is not supported", 1, 22),
        ("UPDATE t SET a = WHERE b", "a value is expected", 1, 18),
        ("UPDATE t SET a = 1, a = 2", "is set twice", 1, 26),
        ("DELETE t WHERE a", "FROM is expected", 1, 8),
        ("MERGE INTO t USING s ON a WHEN MATCHED THEN INSERT *", "THEN DELETE OR UPDATE is expected", 1, 45),
        ("MERGE INTO t USING s ON a WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", "without a condition", 1, 76),
        ("SELECT\n 'x", "the quote ' is not closed", 2, 2),
        ("SELECT ‘x’", "typographic quote", 1, 8),
        ("SHOW FUNCTIONS", "SHOW needs an object", 1, 6),
        ("CALL d.compact('t')", "procedures are in the database sys", 1, 15),
        ("EXPLAIN INSERT INTO t SELECT 1", "EXPLAIN INSERT is not supported", 1, 9),
        ("EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1", "EXPLAIN CREATE is not supported", 1, 17),
        ("DROP FUNCTION f", "DROP FUNCTION is not supported", 1, 6),
    ],
)
def test_invalid_statements_are_refused_with_their_position(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(ConfigError) as caught:
        read_statement(text)
    assert message in caught.value.message
    assert (caught.value.facts["line"], caught.value.facts["column"]) == (line, column)


def test_statements_of_a_script_end_with_semicolons() -> None:
    parts = list(script_parts("-- hello; there\nselect 1;\n\n  select ';' ;; /* ; */ values (1)\n"))
    assert [(part.text, part.place.line, part.place.column) for part in parts] == [
        ("select 1", 2, 1),
        ("select ';'", 4, 3),
        ("values (1)", 4, 25),
    ]


@pytest.mark.parametrize(
    ("source", "text", "alias"),
    [
        ("(SELECT 1 AS id) s", "(SELECT 1 AS id)", "s"),
        ("(SELECT (1) AS id) AS `s`", "(SELECT (1) AS id)", "s"),
        ("(VALUES (1, 'm')) s(id, st)", '(SELECT * FROM (VALUES (1, \'m\')) AS "s" ("id", "st"))', "s"),
        ("(VALUES (1)) AS s (id)", '(SELECT * FROM (VALUES (1)) AS "s" ("id"))', "s"),
        ("changes AS s (id)", '(SELECT * FROM changes AS "s" ("id"))', "s"),
        ("shop.changes", "shop.changes", "changes"),
    ],
)
def test_the_source_of_a_merge(source: str, text: str, alias: str) -> None:
    merge = read_statement(f"MERGE INTO t USING {source} ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert isinstance(merge, Merge)
    assert (merge.source, merge.source_alias, merge.on) == (text, alias, "t.id = s.id")


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        (
            "MERGE INTO t USING (SELECT 1 AS id) ON t.id = s.id WHEN MATCHED THEN DELETE",
            "USING (SELECT ...) AS s ON ...",
        ),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            "ALTER TABLE t ADD the columns, and then MERGE INTO",
        ),
        ("ALTER TABLE t DROP TAG 'x'", "ALTER TABLE t DELETE TAG 'x'"),
        ("ALTER TABLE t DROP TAG x", "ALTER TABLE t DELETE TAG 'x'"),
    ],
)
def test_refusals_name_the_statement_to_write(statement: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_statement(statement)
    assert caught.value.hint == hint


def test_a_column_may_be_called_tag() -> None:
    assert read_statement("ALTER TABLE t RENAME tag TO label") == AlterTable(
        ("t",), if_exists=False, changes=(RenameColumn("tag", "label"),)
    )
    assert read_statement("ALTER TABLE t DROP tag") == AlterTable(("t",), if_exists=False, changes=(DropColumn("tag"),))
    assert read_statement("ALTER TABLE t RENAME TAG to TO late") == RenameTag(("t",), "to", "late")


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("ALTER TABLE t CREATE BRANCH b", "sys.create_branch"),
        ("ALTER TABLE t DROP BRANCH b", "sys.delete_branch"),
        ("ALTER TABLE t COMPACT", "CALL sys.compact('db.t')"),
        ("ALTER TABLE t CLUSTER BY (a)", "order_strategy"),
        ("ALTER TABLE t CHANGE COLUMN a b BIGINT", "RENAME a TO b"),
        ("ALTER TABLE t REPLACE COLUMNS (a INT)", "ADD, DROP, RENAME and MODIFY"),
        ("ALTER TABLE t RECOVER PARTITIONS", "leave the statement out"),
        ("ALTER TABLE t PARTITION (dt = 'a') RENAME TO PARTITION (dt = 'b')", "INSERT OVERWRITE t PARTITION"),
        ("ALTER TABLE t SET LOCATION '/x'", "penstock clone"),
        ("SHOW BRANCHES t", "t$branches"),
        ("SHOW FUNCTIONS", "duckdb_functions()"),
        ("SHOW COLUMNS IN t ILIKE 'a%'", "DESCRIBE t name"),
        ("SHOW COLUMNS LIKE 'a%'", "DESCRIBE t name"),
        ("SHOW PARTITIONS t LIKE 'a%'", "SHOW PARTITIONS t PARTITION"),
        ("SHOW TAGS t ILIKE 'a%'", "t$tags"),
        ("LOAD MODULE hive WITH ('hive-version' = '3.1.3')", "functions are those of DuckDB"),
        ("UNLOAD MODULE hive", "functions are those of DuckDB"),
        ("LOAD DATA INPATH 'x' INTO TABLE t", "read_csv('file')"),
        ("CREATE EXTERNAL TABLE t (id INT) LOCATION 'p'", "CREATE TABLE t (...) LOCATION 'path'"),
        ("CREATE FUNCTION f AS 'x'", "write the expression into the query"),
        ("ALTER FUNCTION d.f AS 'x' LANGUAGE JAVA", "write the expression into the query"),
        ("DROP FUNCTION IF EXISTS d.f", "write the expression into the query"),
        ("ALTER VIEW v SET ('a' = 'b')", "CREATE OR REPLACE VIEW"),
        ("CREATE TABLE t (id INT) WITH ('type' = 'format-table', 'file.format' = 'csv')", "query the files"),
        ("CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = 'x')", "query the files"),
        ("CREATE TEMPORARY TABLE t (id INT) WITH ('connector' = 'upsert-kafka')", "penstock kafka-sync-table"),
        ("CREATE TEMPORARY TABLE t (id INT) WITH ('connector' = 'mysql-cdc')", "penstock mysql-sync-table"),
        ("CREATE TEMPORARY TABLE t (id INT) WITH ('connector' = 'blackhole')", "SELECT count(*)"),
        ("CREATE TABLE t WITH ('type' = 'object-table')", "glob("),
        ("CREATE TABLE t (id INT) WITH ('connector' = 'datagen')", "CREATE TEMPORARY TABLE"),
        ("CREATE TABLE t (id INT) WITH ('connector' = 'elasticsearch')", "all tables are Paimon tables"),
        ("CREATE TABLE t (id INT) PARTITIONED BY (bucket(4, id))", "partition by a column"),
        ("REPAIR TABLE t", "leave the statement out"),
        ("INSERT t VALUES (1)", "INSERT INTO t ..."),
        ("INSERT INTO t DEFAULT VALUES", "VALUES with at least one column"),
        ("INSERT INTO t REPLACE WHERE a = 1 SELECT 1", "INSERT OVERWRITE t PARTITION"),
        ("DELETE FROM t USING s WHERE t.a = s.a", "MERGE INTO t USING s"),
        ("DELETE FROM t WHERE a > 1 LIMIT 1", "WHERE id IN (SELECT id"),
        ("UPDATE t SET a = 1 WHERE b = 2 RETURNING a", "returns the number of rows"),
        ("DELETE FROM t WHERE a = 1 AND limit > 2", "column of this name is written in backquotes"),
        ("CREATE TABLE t (id INT UNIQUE)", "PRIMARY KEY"),
        ("CREATE TABLE t (id INT DEFAULT 5 UNIQUE)", "PRIMARY KEY"),
        ("ALTER TABLE t ALTER COLUMN id TYPE BIGINT CHECK (id > 0)", "before they are written"),
        ("CREATE TABLE t (id INT CHECK (id > 0))", "before they are written"),
        ("CREATE TABLE t (id INT REFERENCES s(id))", "no foreign keys"),
        ("CREATE TABLE t (id INT, UNIQUE (id))", "leave it out"),
        ("CREATE TABLE t (v STRING COLLATE UTF8_LCASE)", "by their bytes"),
        ("CREATE TABLE t (v INT[])", "ARRAY<INT>"),
    ],
)
def test_statements_of_other_engines_are_refused_with_what_to_write(statement: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_statement(statement)
    assert hint in (caught.value.hint or "")


def test_a_column_may_have_the_collation_that_spark_writes() -> None:
    read = read_statement("CREATE TABLE t (v STRING COLLATE UTF8_BINARY COMMENT 'x', `unique` INT)")
    assert read == read_statement("CREATE TABLE t (v STRING COMMENT 'x', `unique` INT)")


def test_the_type_of_a_column_may_be_changed_to_one_with_the_collation_that_spark_writes() -> None:
    read = read_statement("ALTER TABLE t ALTER COLUMN v TYPE STRING COLLATE UTF8_BINARY COMMENT 'x'")
    assert read == read_statement("ALTER TABLE t ALTER COLUMN v TYPE STRING COMMENT 'x'")


@pytest.mark.parametrize("column", ["branch", "tag"])
def test_columns_of_these_names_are_dropped(column: str) -> None:
    assert read_statement(f"ALTER TABLE t DROP {column}") == AlterTable(
        ("t",), if_exists=False, changes=(DropColumn(column),)
    )
