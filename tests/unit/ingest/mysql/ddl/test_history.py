"""Logs without names, read with the history that their own DDL gives."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.query_event import parse_query
from penstock.ingest.mysql.binlog.segment import QUERY
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.ddl.alter_changes import RowsMoved
from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.ddl.statements import AlterTableStatement
from penstock.ingest.mysql.definition import MySqlColumn, MySqlType, TableDefinition
from penstock.ingest.mysql.errors import DdlNotUnderstood, SchemaHistoryMismatch
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.recorded_history import DefinitionStore
from penstock.ingest.mysql.table_choice import EveryTable
from penstock.ingest.mysql.whole_table_ddl import renames_column
from penstock.storage.state_folder import StateFolder
from tests.binlog_files import file_segments
from tests.unit.ingest.mysql.logs import LOGS, UNNAMED, batches, changes

START, END = LogPosition("x.000001", 4), LogPosition("x.000001", 1 << 40)


def history_of(log: str) -> SchemaHistory:
    history = SchemaHistory(mariadb=log.startswith("mariadb"))
    for segment in file_segments(LOGS / f"{log}.000001"):
        for plain in unpacked(segment, 1 << 20):
            for event in np.flatnonzero(plain.kind == QUERY):
                history.apply(parse_query(plain.body(event)), plain.file, int(plain.pos[event]))
    return history


@pytest.mark.parametrize(("bare", "named"), UNNAMED.items())
def test_a_binlog_without_names_has_the_rows_of_one_with_names(bare: str, named: str) -> None:
    part = history_of(bare).part(EveryTable(), START, END)
    wanted = changes(batches(named, BinlogOptions()))
    found = changes(batches(bare, BinlogOptions(definitions=pickle.loads(pickle.dumps(part)))))
    assert found == wanted


@pytest.mark.parametrize(("bare", "named"), UNNAMED.items())
def test_the_declared_types_are_the_same_with_and_without_names(bare: str, named: str) -> None:
    schemas = []
    for log in (bare, named):
        part = history_of(log).part(EveryTable(), START, END)
        schemas.append([batch.schema for batch in batches(log, BinlogOptions(definitions=part))])
    for mine, theirs in zip(*schemas, strict=True):
        assert [(f.name, f.type, f.comment) for f in mine.fields] == [
            (f.name, f.type, f.comment) for f in theirs.fields
        ]
        assert mine.primary_keys == theirs.primary_keys


def test_tinyint_1_is_known_only_from_the_history() -> None:
    part = history_of("mysql-plain").part(EveryTable(), START, END)
    for definitions, kind in ((part, "tinyint(1)"), (None, "tinyint")):
        options = BinlogOptions(definitions=definitions) if definitions else BinlogOptions()
        batch = next(batch for batch in batches("mysql-plain", options) if batch.schema.table == "all_types")
        assert {field.name: field.type for field in batch.schema.fields}["c_bool"] == kind


def test_left_out_tables_survive_json() -> None:
    history = SchemaHistory()
    keyless = TableDefinition("d", "t", (MySqlColumn("a", MySqlType("int")),))
    history.leave_out({keyless.name: keyless}, "no primary key", START)
    history.leave_out({("d", "s"): None}, "sequence", START)
    again = SchemaHistory()
    again.restore(DefinitionVersion.from_json(json.loads(json.dumps(item.to_json()))) for item in history.unsaved)
    assert again.versions == history.versions
    part = again.part(EveryTable(), START, END)
    assert [part.is_skipped(("d", name), "x.000001", 300) for name in "ts"] == [False, True]
    assert part.definition_at(("d", "t"), "x.000001", 300, named=False) == keyless
    assert not again.was_captured(("d", "t"))
    ddl(again, "ALTER TABLE t ADD PRIMARY KEY (a)", 400)
    assert again.was_captured(("d", "t"))


def test_history_survives_json() -> None:
    history = history_of("mysql-minimal")
    records = [DefinitionVersion.from_json(json.loads(json.dumps(version.to_json()))) for version in history.unsaved]
    again = SchemaHistory()
    again.restore(records)
    assert again.versions == history.versions
    assert again.tables.known == history.tables.known
    assert again.unsaved == []


def ddl(history: SchemaHistory, sql: str, pos: int) -> list:
    return history.apply(Query(sql, "d", ansi_quotes=False, backslash_escapes=True), "x.000001", pos)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (a INT PRIMARY KEY)",),
        ("ALTER TABLE t ADD b INT",),  # it was created before the pipeline
        ("CREATE TABLE t (a INT PRIMARY KEY)", "ALTER TABLE t ADD b INT", "TRUNCATE t"),
        ("DROP TABLE t",),
        ("CREATE TABLE t AS SELECT 1",),
        ("RENAME TABLE old TO t",),
    ],
)
def test_a_table_that_was_excluded_is_new_when_it_is_included(statements: tuple[str, ...], tmp_path: Path) -> None:
    history, name = SchemaHistory(), ("d", "t")
    for place, sql in enumerate(statements, 1):
        query = Query(sql, "d", ansi_quotes=False, backslash_escapes=True)
        history.apply(query, "x.000001", 100 * place, lambda database, table: table != "t")
    assert not history.was_captured(name)
    store = DefinitionStore(StateFolder(str(tmp_path / "history")))
    store.add("server", history.unsaved)
    again = SchemaHistory()
    again.restore(record.version for record in store.records())
    assert not again.was_captured(name)
    assert again.tables.known == history.tables.known  # the definition is followed all the same
    ddl(again, "CREATE TABLE t (a INT PRIMARY KEY)", 900)
    assert again.was_captured(name)


def test_a_definition_is_valid_after_its_statement() -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT)", 100)
    ddl(history, "ALTER TABLE t ADD b INT", 200)
    assert history.definition_at(("d", "t"), "x.000001", 99) is None
    assert [c.name for c in history.definition_at(("d", "t"), "x.000001", 150).columns] == ["a"]
    assert [c.name for c in history.definition_at(("d", "t"), "x.000001", 201).columns] == ["a", "b"]
    part = history.part(EveryTable(), LogPosition("x.000001", 150), LogPosition("x.000001", 180))
    assert len(part.versions["d", "t"]) == 1


def test_reading_a_statement_twice_changes_nothing() -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT)", 100)
    for _ in range(2):
        ddl(history, "ALTER TABLE t ADD b INT", 200)
    assert len(history.versions["d", "t"]) == 2


def test_an_online_schema_change_is_a_swap_with_the_ghost_s_definition() -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT PRIMARY KEY)", 100)
    ddl(history, "CREATE TABLE `_t_gho` LIKE t", 110)
    ddl(history, "ALTER TABLE `_t_gho` ADD b INT", 120)
    found = ddl(history, "RENAME TABLE t TO `_t_del`, `_t_gho` TO t", 130)
    assert [(change.kind, change.name[1], change.old_name[1]) for change in found] == [
        ("rename", "_t_del", "t"),
        ("swap", "t", "_t_gho"),
    ]
    assert [c.name for c in history.definition_at(("d", "t"), "x.000001", 131).columns] == ["a", "b"]
    assert history.definition_at(("d", "_t_gho"), "x.000001", 131) is None


def test_unparsed_ddl_stops_only_binlogs_without_names() -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT)", 100)
    found = ddl(history, "ALTER TABLE t MODIFY missing INT", 200)
    assert found[0].kind == "unclear"
    part = history.part(EveryTable(), START, END)
    assert part.definition_at(("d", "t"), "x.000001", 300, named=True) is None
    with pytest.raises(DdlNotUnderstood, match="missing"):
        part.definition_at(("d", "t"), "x.000001", 300, named=False)


def test_a_definition_that_contradicts_the_binlog_is_an_error() -> None:
    history = history_of("mysql-minimal")
    ddl(history, "ALTER TABLE rec.no_key ADD wrong INT FIRST", 1)
    table = history.tables.known["d" if ("d", "no_key") in history.tables.known else "rec", "no_key"]
    again = SchemaHistory()
    again.start([*history.tables.known.values(), table], START)
    options = BinlogOptions(definitions=again.part(EveryTable(), START, END))
    with pytest.raises(SchemaHistoryMismatch):
        batches("mysql-minimal", options)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW v AS SELECT 1",
        "GRANT ALL ON *.* TO x",
        "CREATE TEMPORARY TABLE t (a INT)",
        "ANALYZE TABLE t",
        "",
        "/* only a comment */",
        "CREATE TABLE",
        "ALTER TABLE",
        "DROP",
        "RENAME TABLE t",
        "ALTER TABLE t",
        "CREATE TABLE t (",
        "ALTER TABLE t ADD (",
        "\x00\xff`'\"",
    ],
)
def test_any_text_can_be_parsed(sql: str) -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT)", 100)
    ddl(history, sql, 200)


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("TRUNCATE t", ["truncate"]),
        ("CREATE OR REPLACE SEQUENCE s START WITH 5", ["left-out"]),
        ("CREATE TABLE v (a INT) ENGINE=InnoDB COMMENT 'x' WITH SYSTEM VERSIONING", ["left-out"]),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", ["left-out"]),
        ("ALTER TABLE t DROP SYSTEM VERSIONING", ["unclear"]),
        ("DROP TABLE t, u", ["drop", "drop"]),
        ("ALTER TABLE t DROP PARTITION p0", ["rows-moved"]),
        ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u", ["rows-moved", "rows-moved"]),
        ("ALTER TABLE t CONVERT PARTITION p0 TO TABLE u", ["rows-moved", "create", "rows-moved"]),
        ("ALTER TABLE t CONVERT TABLE u TO PARTITION p1 VALUES LESS THAN (9)", ["rows-moved", "drop"]),
        ("CREATE OR REPLACE TABLE t (a INT)", ["drop", "create"]),
        ("CREATE OR REPLACE VIEW u AS SELECT 1", []),
        ("DROP DATABASE d", ["drop"]),
        ("ALTER TABLE t ADD INDEX (a), RENAME TO u", ["rename"]),
        ("SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD b INT", ["alter"]),
        ("ALTER TABLE t PARTITION BY HASH(a) PARTITIONS 4", []),
        ("CREATE TABLE u (a INT) START TRANSACTION", ["create"]),
        ("CREATE TABLE u AS SELECT 1", ["unclear"]),
        ("CREATE TABLE u (a ENUM('b', x'61'))", ["unclear"]),
        ("ALTER TABLE t ADD b SET(0x61, 'b')", ["unclear"]),
        ("ALTER TABLE t ADD b ENUM('x', 'y') DEFAULT 0x78", ["alter"]),
    ],
)
def test_statements_have_their_effects_on_tables(sql: str, kinds: list[str]) -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT)", 100)
    assert [change.kind for change in ddl(history, sql, 200)] == kinds


def test_a_drop_of_several_tables_drops_each_of_them() -> None:
    """One of the tables was added to the capture later, so its definition is newer than the statement."""
    history = SchemaHistory(mariadb=False)
    for name in ("a", "b"):
        ddl(history, f"CREATE TABLE shop.{name} (id INT PRIMARY KEY)", 10)
    history._note(DefinitionVersion(("shop", "a"), "x.000001", 500, history.tables.known["shop", "a"]))
    ddl(history, "DROP TABLE shop.a, shop.b", 100)
    assert history.definition_at(("shop", "a"), "x.000001", 600) is not None
    assert history.definition_at(("shop", "b"), "x.000001", 600) is None


def test_stored_definitions_may_contain_line_separators(tmp_path: Path) -> None:
    odd = "first\u2028second\u2029third\x85"
    column = MySqlColumn("id", MySqlType("int"), comment=odd)
    version = DefinitionVersion(("shop", "t"), "x.000001", 10, TableDefinition("shop", "t", (column,), ("id",)))
    folder = DefinitionStore(StateFolder(str(tmp_path / "history")))
    folder.add("server", [version, version])
    assert [record.version for record in folder.records()] == [version, version]


def test_definitions_of_a_plan_that_is_made_again_are_passed_over(tmp_path: Path) -> None:
    table = TableDefinition("shop", "t", (MySqlColumn("id", MySqlType("int")),), ("id",))
    first, second = (DefinitionVersion(("shop", "t"), "x.000001", pos, table) for pos in (10, 20))
    folder = DefinitionStore(StateFolder(str(tmp_path / "history")))
    folder.add("server", [first])  # also how earlier versions wrote it
    folder.add("server", [second], "4711")
    assert [record.version for record in folder.records()] == [first, second]
    assert [record.version for record in folder.records("4711")] == [first]
    assert [record.version for record in folder.records("4712")] == [first, second]


@pytest.mark.parametrize(
    ("sql", "pairs"),
    [
        ("ALTER TABLE t CHANGE a A INT", (("a", "A"),)),
        ("ALTER TABLE t RENAME COLUMN a TO A", (("a", "A"),)),
        ("ALTER TABLE t CHANGE A b INT", (("a", "b"),)),
        ("ALTER TABLE t RENAME COLUMN A TO b", (("a", "b"),)),
        ("ALTER TABLE t CHANGE a a BIGINT", ()),
        ("ALTER TABLE t RENAME COLUMN a TO a", ()),
        ("ALTER TABLE t MODIFY a BIGINT", ()),
    ],
)
def test_rename_and_change_column_are_one_change_even_if_only_the_case_differs(
    sql: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    history = SchemaHistory()
    ddl(history, "CREATE TABLE t (a INT)", 100)
    (statement,) = parse_ddl(Query(sql, "d", ansi_quotes=False, backslash_escapes=True), mariadb=False)
    assert isinstance(statement, AlterTableStatement)
    assert any(map(renames_column, statement.changes)) == bool(pairs)  # ends the batch where renames are followed
    (change,) = ddl(history, sql, 200)
    assert change.renamed_columns == pairs
    assert change.definition is not None
    assert [column.name for column in change.definition.columns] == [pairs[0][1] if pairs else "a"]


@pytest.mark.parametrize(
    ("sql", "verb"),
    [
        ("SET STATEMENT max_statement_time = 5, x = 'FOR' FOR ALTER TABLE t ADD c INT", "ALTER"),
        ("/* x */ SET STATEMENT a=1 FOR WITH w AS (SELECT 1) SELECT f(1)", "SELECT"),
        ("WITH RECURSIVE `update` (a) AS (SELECT 1 UNION SELECT 2), w AS (DELETE) UPDATE t SET a = 1", "UPDATE"),
        ("WITH w AS (SELECT 1) DELETE FROM t", "DELETE"),
        ("SET PASSWORD = 'x'", "SET"),
        ("SAVEPOINT `a`", "SAVEPOINT"),
        ("", ""),
    ],
)
def test_the_verb_of_a_statement_follows_what_is_in_front_of_it(sql: str, verb: str) -> None:
    assert Query(sql, "d", ansi_quotes=False, backslash_escapes=True).verb == verb


@pytest.mark.parametrize(
    ("clauses", "loses"),
    [("ADD UNIQUE (a)", True), ("MODIFY a TINYINT", True), ("ADD PRIMARY KEY (a)", True), ("ADD b INT", False)],
)
def test_alter_ignore_may_lose_rows_with_equal_keys(clauses: str, loses: bool) -> None:
    for word, expected in (("IGNORE", loses), ("ONLINE IGNORE", loses), ("ONLINE", False)):
        query = Query(f"ALTER {word} TABLE t {clauses}", "d", ansi_quotes=False, backslash_escapes=True)
        found = [change for statement in parse_ddl(query, mariadb=True) for change in getattr(statement, "changes", ())]
        assert any(isinstance(change, RowsMoved) for change in found) == expected


@pytest.mark.parametrize(
    "sql", ["TRUNCATE 'a'", "DROP TABLE t, 'a'", "RENAME TABLE t AS u", "ALTER TABLE +", "DROP DATABASE"]
)
def test_a_statement_whose_names_cannot_be_read_is_reported(sql: str, caplog: pytest.LogCaptureFixture) -> None:
    query = Query(sql, "d", ansi_quotes=False, backslash_escapes=True)
    assert SchemaHistory().apply(query, "binlog.000007", 123) == []
    assert "event=ddl_not_read file=binlog.000007 pos=123 reason=" in caplog.text


@pytest.mark.parametrize(
    "sql", ["DROP INDEX i ON t", "CREATE VIEW v AS SELECT 1", "ALTER USER u", "RENAME USER a TO b"]
)
def test_a_statement_about_something_else_is_not_reported(sql: str, caplog: pytest.LogCaptureFixture) -> None:
    assert SchemaHistory().apply(Query(sql, "d", ansi_quotes=False, backslash_escapes=True), "b.1", 4) == []
    assert not caplog.text
