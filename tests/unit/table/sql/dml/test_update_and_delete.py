"""What SET of UPDATE and MERGE names, and commits of other jobs while a statement begins."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.storage.local import LocalStorage
from penstock.table.catalog.catalog import Catalog
from penstock.table.operations.write import TableWriter
from penstock.table.sql.dml import inserts
from penstock.table.sql.interpreter import Interpreter

KEY = ", PRIMARY KEY (id) NOT ENFORCED"
ROWS = [{"id": 1, "v": 1, "s": {"v": 2, "w": "x"}}]
MERGE = "MERGE INTO t USING (SELECT 1 AS id, 9 AS v) AS s0 ON t.id = s0.id WHEN MATCHED THEN UPDATE SET "


@pytest.fixture(params=["", KEY])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    columns = f"id INT, v INT, s STRUCT<v: INT, w: STRING>{request.param}"
    list(made.run(f"CREATE TABLE t ({columns}); INSERT INTO t VALUES (1, 1, {{'v': 2, 'w': 'x'}})"))
    return made


def rows(lake: Interpreter) -> list[dict[str, object]]:
    (found,) = lake.run("SELECT * FROM t")
    listed: list[dict[str, object]] = found.to_pylist()
    return listed


@pytest.mark.parametrize("statement", ["SELECT * FROM t", "UPDATE t SET v = 5", f"{MERGE}v = 5"])
def test_a_read_that_fails_is_no_error_of_the_statement(
    lake: Interpreter, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB reads the table, and passes on errors as texts only."""
    read = LocalStorage.read
    left = 0

    def failing(self: LocalStorage, path: str) -> bytes:
        nonlocal left
        if "manifest-" in path:
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, "the disk does not answer", path)
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", failing)
    for first in range(3):
        left = first
        with pytest.raises(OSError, match="the disk does not answer"):
            list(lake.run(statement))


@pytest.mark.parametrize("statement", ["UPDATE t SET s0.v = 5", f"{MERGE}s0.v = 5"])
def test_a_name_of_another_place_does_not_set_the_column_of_the_same_name(lake: Interpreter, statement: str) -> None:
    with pytest.raises(ConfigError, match="the table has no column 's0'") as refused:
        list(lake.run(statement))
    assert refused.value.facts["column"]
    assert rows(lake) == ROWS


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        ("s.v = 5", {"v": 5, "w": "x"}),
        ("t.s.v = 5", {"v": 5, "w": "x"}),
        ("t.S.W = s.w || t.s.w", {"v": 2, "w": "xx"}),
        ("s.w = 'y', s.v = s.v + 1", {"v": 3, "w": "y"}),
        ("s.w = NULL", {"v": 2, "w": None}),
    ],
)
@pytest.mark.parametrize("start", ["UPDATE t SET ", MERGE])
def test_a_field_of_a_struct_is_set_and_the_others_stay(
    lake: Interpreter, start: str, assigned: str, expected: object
) -> None:
    list(lake.run(start + assigned))
    assert rows(lake) == [{**ROWS[0], "s": expected}]


def test_a_field_of_a_null_struct_and_of_a_struct_in_a_struct_is_set(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    inner = "STRUCT<`b c`: INT, d: STRING>"
    script = f"""CREATE TABLE t (id INT, s STRUCT<a: {inner}, e: INT>);
        INSERT INTO t VALUES (1, {{'a': {{'b c': 1, 'd': 'x'}}, 'e': 2}}), (2, NULL);
        UPDATE t SET s.a.`b c` = id + 6; SELECT s FROM t ORDER BY id"""
    *_, found = Interpreter(catalog, "d").run(script)
    assert found.column("s").to_pylist() == [
        {"a": {"b c": 7, "d": "x"}, "e": 2},
        {"a": {"b c": 8, "d": None}, "e": None},
    ]


@pytest.mark.parametrize(
    ("assigned", "error"),
    [
        ("s.q = 5", "the struct 's' has no field 'q'"),
        ("v.q = 5", "'v' is INT and has no fields to set"),
        ("s.v = 1, S.V = 2", "the column 's.v' is set twice"),
        ("s.v = 1, s = NULL", "the column 's' is set twice"),
        ("s = NULL, s.v = 1", "the column 's.v' is set twice"),
    ],
)
@pytest.mark.parametrize("start", ["UPDATE t SET ", MERGE])
def test_fields_that_cannot_be_set_are_refused(lake: Interpreter, start: str, assigned: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        list(lake.run(start + assigned))
    assert rows(lake) == ROWS


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET t.v = 5",
        "UPDATE d.t SET D.t.v = 5",
        "UPDATE d.t AS x SET x.v = 5",
        "UPDATE d.t AS x SET t.v = 5",
        f"{MERGE}t.v = 5",
        "MERGE INTO t AS x USING (SELECT 1 AS id) AS y ON x.id = y.id WHEN MATCHED THEN UPDATE SET X.v = 5",
    ],
)
def test_a_column_is_set_behind_its_table_or_the_alias(lake: Interpreter, statement: str) -> None:
    list(lake.run(statement))
    assert rows(lake) == [{**ROWS[0], "v": 5}]


def test_a_struct_is_set_with_fields_of_the_old_one(lake: Interpreter) -> None:
    list(lake.run("UPDATE t SET s = {'v': s.v + 1, 'w': s.w}"))
    assert rows(lake) == [{**ROWS[0], "s": {"v": 3, "w": "x"}}]


def test_conditions_of_a_merge_have_queries(lake: Interpreter) -> None:
    deleted = "WHEN MATCHED AND s0.v < (SELECT max(x.v) FROM t AS x WHERE x.id = t.id) THEN DELETE"
    updated = "WHEN MATCHED AND EXISTS (SELECT 1 FROM t) THEN UPDATE SET v = t.v + (SELECT count(*) FROM t), s.v = 7"
    missing = "WHEN NOT MATCHED AND s0.id NOT IN (SELECT id FROM t) THEN INSERT (id, v) VALUES (s0.id, s0.v)"
    source = "(SELECT * FROM VALUES (1, 9), (2, 5)) AS s0 (id, v)"
    list(lake.run(f"MERGE INTO t USING {source} ON t.id = s0.id {deleted} {updated} {missing}"))
    found = sorted(rows(lake), key=lambda row: str(row["id"]))
    assert found == [{"id": 1, "v": 2, "s": {"v": 7, "w": "x"}}, {"id": 2, "v": 5, "s": None}]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("NOT MATCHED THEN INSERT (id, v) VALUES (id, v + (SELECT max(v) FROM t))", [(1, 1), (2, 6)]),
        (
            "NOT MATCHED AND id NOT IN (SELECT (id) FROM (SELECT id FROM t)) THEN INSERT (id, v) VALUES (id, v)",
            [(1, 1), (2, 5)],
        ),
        ("NOT MATCHED BY SOURCE THEN UPDATE SET v = v + (SELECT sum(v) FROM (SELECT 5 AS v)) + abs(v)", [(1, 7)]),
        ("NOT MATCHED THEN INSERT VALUES (id, (SELECT v + abs(v) AS v), NULL)", [(1, 1), (2, 10)]),
        (
            "NOT MATCHED AND (SELECT v) = 5 THEN INSERT (id, v) VALUES (id, (SELECT CASE WHEN v > 1 THEN id END v))",
            [(1, 1), (2, 2)],
        ),
        (
            "NOT MATCHED AND CASE WHEN (SELECT count(*) FROM (SELECT 1)) > 5 THEN error('many') ELSE true END "
            "THEN INSERT (id) VALUES (id)",
            [(1, 1), (2, None)],
        ),
        ("NOT MATCHED BY SOURCE AND (id) IN (SELECT id + 1 FROM (SELECT 1 AS id)) THEN DELETE", [(1, 1)]),
    ],
)
def test_names_in_queries_of_a_merge_are_those_of_the_query(lake: Interpreter, clause: str, expected: object) -> None:
    list(lake.run(f"MERGE INTO t USING (SELECT 2 AS id, 5 AS v) AS s0 ON t.id = s0.id WHEN {clause}"))
    assert sorted((row["id"], row["v"]) for row in rows(lake)) == expected


@pytest.mark.parametrize(("function", "other"), [("random", "1"), ("RANDOM", "1"), ("uuid", "''")])
def test_a_condition_that_each_column_would_decide_again_is_refused(
    lake: Interpreter, function: str, other: str
) -> None:
    """Some columns of a row would be updated, and others not."""
    merge = (
        "MERGE INTO t USING (SELECT 1 AS id) AS s0 ON t.id = s0.id WHEN MATCHED AND {} THEN UPDATE SET v = 5, s.v = 5"
    )
    with pytest.raises(ConfigError, match=r"cannot call .*another value each time") as refused:
        list(lake.run(merge.format(f"{function}()::VARCHAR < (SELECT '~' FROM t)")))
    assert "in the source" in str(refused.value.hint)
    list(lake.run(merge.format('(SELECT random() AS "random" FROM t) IS NULL').replace("random() AS", f"{other} AS")))
    assert rows(lake) == ROWS


@pytest.fixture(params=["false", "true"])
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    options = f"WITH ('bucket' = '1', 'write-only' = '{request.param}')"
    list(made.run(f"CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) {options}"))
    list(made.run("INSERT INTO t VALUES (1, 0), (2, 0)"))
    return made


MERGE_ITSELF = "MERGE INTO t USING (SELECT * FROM t) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + s.v + 9"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE t SET v = v + 10", [(1, 11), (2, 11)]),
        ("DELETE FROM t WHERE v = 0", [(1, 1), (2, 1)]),
        (MERGE_ITSELF, [(1, 11), (2, 11)]),
    ],
)
def test_a_statement_changes_rows_that_another_job_commits_while_it_begins(
    keyed: Interpreter,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    statement: str,
    expected: object,
    when: str,
) -> None:
    real = TableWriter.open.__func__  # type: ignore[attr-defined]
    others = iter(["UPDATE d.t SET v = v + 1"])

    def other_job() -> None:
        for sql in others:
            penstock.sql(sql, tmp_path, options={"local.sync": "false"})

    def opened(cls: type[TableWriter], *given: object, **named: object) -> object:
        # The job commits while it opens the writer of its own, which is another call of this function.
        if when == "before":
            other_job()
        writer = real(cls, *given, **named)
        other_job()
        return writer

    monkeypatch.setattr(TableWriter, "open", classmethod(opened))
    list(keyed.run(statement))
    assert sorted((row["id"], row["v"]) for row in rows(keyed)) == expected


def test_a_statement_gives_up_after_three_conflicts(
    keyed: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = TableWriter.prepare
    others = iter([f"INSERT INTO d.t VALUES (1, {100 * number})" for number in (1, 2, 3)])

    def prepared(writer: TableWriter, identifier: int | None = None) -> object:
        messages = real(writer, identifier)
        monkeypatch.setattr(TableWriter, "prepare", real)
        for sql in others:
            penstock.sql(sql, tmp_path, options={"local.sync": "false"})
            break
        monkeypatch.setattr(TableWriter, "prepare", prepared)
        return messages

    monkeypatch.setattr(TableWriter, "prepare", prepared)
    with pytest.raises(CommitConflict) as refused:
        list(keyed.run("UPDATE t SET v = v + 1"))
    assert "run it again" in str(refused.value.hint)
    assert sorted((row["id"], row["v"]) for row in rows(keyed)) == [(1, 300), (2, 0)]


def test_an_insert_from_the_table_itself_does_not_replace_what_was_committed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    lake = Interpreter(catalog, "d")
    list(lake.run("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED); INSERT INTO t VALUES (1, 0)"))
    real = inserts._writer

    def opened(*given: object) -> object:
        monkeypatch.setattr(inserts, "_writer", real)
        penstock.sql("UPDATE d.t SET v = v + 1", tmp_path, options={"local.sync": "false"})
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(inserts, "_writer", opened)
    list(lake.run("INSERT INTO t SELECT id, v + 10 FROM t"))
    assert rows(lake) == [{"id": 1, "v": 11}]


WAITING = "WITH ('bucket' = '2', 'deletion-vectors.enabled' = 'true', 'write-only' = 'true')"


def waiting(folder: Path) -> Interpreter:
    """Return a table of which rows wait for a compaction in both partitions, newer ones of the same key among them."""
    catalog = Catalog(folder, {"local.sync": "false"})
    catalog.create_database("d")
    lake = Interpreter(catalog, "d")
    columns = "p INT, id INT, v INT, PRIMARY KEY (p, id) NOT ENFORCED) PARTITIONED BY (p"
    list(lake.run(f"CREATE TABLE t ({columns}) {WAITING}; INSERT INTO t VALUES (1, 1, 0), (2, 1, 0)"))
    list(lake.run("CALL sys.compact('d.t'); INSERT INTO t VALUES (1, 1, 5), (1, 7, 5), (2, 1, 5), (2, 7, 5)"))
    return lake


def shown(lake: Interpreter) -> list[tuple[int, ...]]:
    """Return the rows that are read without a compaction."""
    (found,) = lake.run("SELECT p, id, v FROM t ORDER BY p, id")
    return [tuple(row.values()) for row in found.to_pylist()]


OLD = [(2, 1, 0)]  # what is shown of a partition that was not compacted
NEW = [(2, 1, 5), (2, 7, 5)]


def compacted(lake: Interpreter) -> list[tuple[int, ...]]:
    list(lake.run("CALL sys.compact('d.t')"))
    return shown(lake)


@pytest.mark.parametrize(
    ("statement", "before", "after"),
    [
        ("UPDATE t SET v = v + 1 WHERE p = 1", OLD, [(1, 1, 6), (1, 7, 6), *NEW]),
        ("UPDATE t AS x SET v = x.v + 1 WHERE x.p IN (SELECT 1)", NEW, [(1, 1, 6), (1, 7, 6), *NEW]),
        ("UPDATE t SET v = v + 1", NEW, [(1, 1, 6), (1, 7, 6), (2, 1, 6), (2, 7, 6)]),
        ("DELETE FROM t WHERE v = 5 AND p < 2", OLD, NEW),
        ("DELETE FROM t AS x WHERE x.v = 5", NEW, []),
        (
            "MERGE INTO t USING (SELECT 7 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 9",
            NEW,
            [(1, 1, 5), (1, 7, 9), (2, 1, 5), (2, 7, 9)],
        ),
    ],
)
def test_rows_that_wait_for_a_compaction_to_be_read_are_compacted_and_changed(
    tmp_path: Path, statement: str, before: list[object], after: list[object]
) -> None:
    lake = waiting(tmp_path)
    list(lake.run(statement))
    assert [row for row in shown(lake) if row[0] == 2] == before
    assert compacted(lake) == after


@pytest.mark.parametrize("where", ["v = 5 AND p = 1", pc.field("p") == 1])
def test_a_delete_without_sql_compacts_what_it_cannot_read(tmp_path: Path, where: str) -> None:
    lake = waiting(tmp_path)
    Catalog(tmp_path, {"local.sync": "false"}).table("d.t").delete(where)
    assert shown(lake)[-1:] == OLD
    assert compacted(lake) == NEW


def test_a_delete_is_run_again_while_its_rows_wait_for_a_compaction(tmp_path: Path) -> None:
    lake = waiting(tmp_path)
    table = Catalog(tmp_path, {"local.sync": "false"}).table("d.t")
    for _ in range(2):
        table.delete("id = 7")
    assert compacted(lake) == [(1, 1, 5), (2, 1, 5)]


def test_a_writer_does_not_replace_rows_that_are_not_read_yet(tmp_path: Path) -> None:
    waiting(tmp_path)
    table = Catalog(tmp_path, {"local.sync": "false"}).table("d.t")
    new = pa.table([pa.array([1], pa.int32())] * 3, names=["p", "id", "v"])
    with table.writer(base=table.latest_snapshot) as writer:
        writer.write(new)
        with pytest.raises(CommitConflict, match="not read before they are compacted") as refused:
            writer.commit()
    assert "penstock compact" in str(refused.value.hint)
