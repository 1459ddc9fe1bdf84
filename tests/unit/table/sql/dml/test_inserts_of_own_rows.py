"""INSERT OVERWRITE of a table with rows that are computed from its own, beside commits of other jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import RowsUnread
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.write import TableWriter
from penstock.table.sql.interpreter import Interpreter

LOCAL = {"local.sync": "false"}
KEYED, APPEND = ", PRIMARY KEY (p, id) NOT ENFORCED", ""
ROWS = [(1, 1, 0), (2, 2, 0)]


def lake(folder: Path, key: str, options: str = "", bucket: str = "1") -> Interpreter:
    catalog = Catalog(folder, LOCAL)
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    bucket = "-1" if key == APPEND else bucket
    list(
        made.run(
            f"CREATE TABLE t (p INT, id INT, v INT{key}) PARTITIONED BY (p) WITH ('bucket' = '{bucket}'{options});"
            "CREATE TABLE other (p INT, id INT, v INT);"
            "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0); INSERT INTO other VALUES (1, 1, 0), (2, 2, 0)"
        )
    )
    return made


def rows(found: Interpreter) -> list[tuple[object, ...]]:
    (read,) = found.run("SELECT p, id, v FROM t")
    return sorted(tuple(row.values()) for row in read.to_pylist())


def beside(monkeypatch: pytest.MonkeyPatch, folder: Path, statements: Sequence[str]) -> Iterator[str]:
    """Let another job run a statement after each read of the overwrite, and before its commit."""
    others, real = iter(statements), OverwriteWriter.prepare

    def prepared(writer: OverwriteWriter, identifier: int | None = None) -> object:
        messages = real(writer, identifier)
        with monkeypatch.context() as own:
            own.setattr(OverwriteWriter, "prepare", real)
            for statement in others:
                penstock.sql(statement, folder, options=LOCAL)
                break
        return messages

    monkeypatch.setattr(OverwriteWriter, "prepare", prepared)
    return others


@pytest.mark.parametrize("key", [KEYED, APPEND], ids=["keyed", "append"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT p, id, v + 10 FROM t",
        "SELECT p, id, v + 10 FROM v",
        "SELECT p, id, v + 10 FROM (SELECT * FROM d.t) AS s",
        "WITH s AS (SELECT * FROM t) SELECT p, id, v + 10 FROM s",
        "SELECT t.p, t.id, t.v + 10 FROM other RIGHT JOIN t ON t.id = other.id",
        "SELECT p, id, v + 10 FROM t /*+ OPTIONS('scan.mode' = 'latest-full') */",
    ],
)
def test_rows_that_another_job_commits_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, query: str
) -> None:
    found = lake(tmp_path, key)
    list(found.run("CREATE TEMPORARY VIEW v AS SELECT * FROM t"))
    beside(monkeypatch, tmp_path, ["INSERT INTO d.t VALUES (1, 7, 7)"])
    list(found.run(f"INSERT OVERWRITE t {query}"))
    assert rows(found) == [(1, 1, 10), (1, 7, 17), (2, 2, 10)]


@pytest.mark.parametrize("key", [KEYED, APPEND], ids=["keyed", "append"])
def test_a_partition_that_is_not_overwritten_is_no_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    found = lake(tmp_path, key)
    beside(monkeypatch, tmp_path, ["INSERT INTO d.t VALUES (2, 7, 7)"])
    snapshots = len(next(iter(found.run("SELECT * FROM t$snapshots"))))
    list(found.run("INSERT OVERWRITE t PARTITION (p = 1) SELECT id, v + 10 FROM t WHERE p = 1"))
    assert rows(found) == [(1, 1, 10), (2, 2, 0), (2, 7, 7)]
    # One try: the statement did not run again.
    assert len(next(iter(found.run("SELECT * FROM t$snapshots WHERE commit_kind <> 'COMPACT'")))) == snapshots + 2


@pytest.mark.parametrize(
    "query", ["SELECT p, id, v + 10 FROM other", "SELECT p, id, v + 10 FROM t VERSION AS OF 1", "SELECT 1, 1, 10"]
)
def test_an_overwrite_with_other_rows_replaces_what_was_committed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """As in Paimon: it has the same result as one that began after the other commit."""
    found = lake(tmp_path, APPEND)
    beside(monkeypatch, tmp_path, ["INSERT INTO d.t VALUES (1, 7, 7)"])
    list(found.run(f"INSERT OVERWRITE t PARTITION (p = 1) SELECT id, v FROM ({query}) AS q(p, id, v) WHERE p = 1"))
    assert rows(found) == [(1, 1, 10), (2, 2, 0)]


def test_an_overwrite_of_itself_gives_up_after_three_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = lake(tmp_path, APPEND)
    others = beside(monkeypatch, tmp_path, [f"INSERT INTO d.t VALUES (1, {number}, 0)" for number in (7, 8, 9, 10)])
    with pytest.raises(CommitConflict, match="another job changed a partition"):
        list(found.run("INSERT OVERWRITE t SELECT p, id, v + 10 FROM t"))
    assert list(others) == ["INSERT INTO d.t VALUES (1, 10, 0)"]
    assert rows(found) == sorted([*ROWS, (1, 7, 0), (1, 8, 0), (1, 9, 0)])


WAITING = {
    "deletion vectors": ", 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'",
    "first row": ", 'merge-engine' = 'first-row', 'write-only' = 'true'",
    "postponed": "",
}


def waiting(folder: Path, options: str) -> Interpreter:
    """Return a table with two partitions. The rows of both wait for a compaction."""
    found = lake(folder, KEYED, options, "1" if options else "-2")
    list(found.run("CALL sys.compact('d.t'); INSERT INTO t VALUES (1, 7, 7), (2, 8, 8)"))
    assert rows(found) == ROWS
    return found


@pytest.mark.parametrize("options", WAITING.values(), ids=WAITING)
def test_an_overwrite_reads_the_rows_that_wait_for_a_compaction(tmp_path: Path, options: str) -> None:
    found = waiting(tmp_path, options)
    list(found.run("INSERT OVERWRITE t SELECT p, id, v + 10 FROM t; CALL sys.compact('d.t')"))
    assert rows(found) == [(1, 1, 10), (1, 7, 17), (2, 2, 10), (2, 8, 18)]


@pytest.mark.parametrize("options", WAITING.values(), ids=WAITING)
def test_an_overwrite_reads_partitions_whose_rows_all_wait(tmp_path: Path, options: str) -> None:
    found = waiting(tmp_path, options)
    list(found.run("INSERT INTO t VALUES (3, 9, 9); INSERT OVERWRITE t SELECT p, id, v + 10 FROM t"))
    list(found.run("CALL sys.compact('d.t')"))
    assert rows(found) == [(1, 1, 10), (1, 7, 17), (2, 2, 10), (2, 8, 18), (3, 9, 19)]


def test_a_text_is_not_the_name_of_the_partition_of_nulls(tmp_path: Path) -> None:
    found = lake(tmp_path, APPEND)
    name = "'__DEFAULT_PARTITION__'"
    list(found.run("CREATE TABLE n (id INT, p STRING) PARTITIONED BY (p)"))
    list(found.run(f"INSERT INTO n VALUES (1, {name}), (2, NULL); INSERT OVERWRITE n PARTITION (p = {name}) SELECT 3"))
    (read,) = found.run("SELECT id, p FROM n ORDER BY id")
    assert read.to_pylist() == [{"id": 2, "p": None}, {"id": 3, "p": "__DEFAULT_PARTITION__"}]


@pytest.mark.parametrize("verb", ["INSERT INTO", "INSERT OVERWRITE"])
def test_values_of_partitions_are_stored_whole_or_refused(tmp_path: Path, verb: str) -> None:
    found = lake(tmp_path, APPEND)
    list(found.run("CREATE TABLE n (v INT, i INT, d DATE) PARTITIONED BY (i, d); INSERT INTO n VALUES (0, 2, NULL)"))
    for values in ("i = '1.9', d = NULL", "i = 2, d = '2024-02-29 12:00'"):
        with pytest.raises(ConfigError, match="cannot be stored whole in the column"):
            list(found.run(f"{verb} n PARTITION ({values}) SELECT 1 WHERE false"))
    (read,) = found.run("SELECT v, i FROM n")
    assert read.to_pylist() == [{"v": 0, "i": 2}]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("options", WAITING.values(), ids=WAITING)
def test_an_overwrite_compacts_only_the_partitions_that_it_replaces(tmp_path: Path, options: str, mode: str) -> None:
    found = waiting(tmp_path, options)
    target, columns = ("t PARTITION (p = 2)", "") if mode == "static" else ("t", "2, ")
    list(found.run(f"INSERT OVERWRITE {target} SELECT {columns}id, v + 10 FROM t WHERE p = 1"))
    list(found.run("CALL sys.compact('d.t', partitions => 'p=2')"))
    assert rows(found) == [(1, 1, 0), (2, 1, 10)]
    list(found.run("CALL sys.compact('d.t')"))
    assert rows(found) == [(1, 1, 0), (1, 7, 7), (2, 1, 10)]


@pytest.mark.parametrize("partition", [None, {"p": 1}])
@pytest.mark.parametrize("options", WAITING.values(), ids=WAITING)
def test_a_writer_does_not_delete_rows_that_are_not_read_yet(
    tmp_path: Path, options: str, partition: dict[str, object] | None
) -> None:
    waiting(tmp_path, options)
    table = Catalog(tmp_path, LOCAL).table("d.t")
    with pytest.raises(RowsUnread, match="readable only after a compaction") as refusal:
        table.overwrite(partition, options={"dynamic-partition-overwrite": "false"}, base=table.latest_snapshot)
    assert refusal.value.partitions == [{"p": 1}, {"p": 2}][: 1 if partition else 2]


@pytest.mark.parametrize("query", ["SELECT * FROM t$ro", "SELECT p, id, v FROM t$audit_log", "SELECT * FROM seen"])
def test_an_overwrite_with_rows_of_a_system_table_finds_commits_of_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    found = lake(tmp_path, KEYED)
    list(found.run("CALL sys.compact('d.t'); CREATE TEMPORARY VIEW seen AS SELECT * FROM t$ro"))
    others = beside(monkeypatch, tmp_path, ["INSERT INTO d.t VALUES (1, 7, 7); CALL sys.compact('d.t')"])
    list(found.run(f"INSERT OVERWRITE t {query}"))
    assert not list(others)
    assert rows(found) == [(1, 1, 0), (1, 7, 7), (2, 2, 0)]


def test_an_overwrite_with_rows_and_their_ids_finds_commits_of_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = lake(tmp_path, APPEND, ", 'row-tracking.enabled' = 'true'")
    others = beside(monkeypatch, tmp_path, ["INSERT INTO d.t VALUES (1, 7, 7)"])
    list(found.run("INSERT OVERWRITE t SELECT p, id, _ROW_ID * 0 + v FROM t$row_tracking"))
    assert not list(others)
    assert rows(found) == [(1, 1, 0), (1, 7, 7), (2, 2, 0)]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("t$branch_b", "t /*+ OPTIONS('branch' = 'b') */"),
        ("t /*+ OPTIONS('branch' = 'b') */", "t$branch_b"),
        ("t$branch_b", "t$branch_b$audit_log"),
    ],
)
def test_an_overwrite_of_a_branch_with_its_own_rows_finds_commits_of_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, source: str
) -> None:
    found = lake(tmp_path, KEYED)
    list(found.run("CALL sys.create_tag('d.t', 'x'); CALL sys.create_branch('d.t', 'b', 'x')"))
    others = beside(monkeypatch, tmp_path, ["INSERT INTO d.t$branch_b VALUES (1, 7, 7)"])
    list(found.run(f"INSERT OVERWRITE {target} SELECT p, id, v + 10 FROM {source}"))
    assert not list(others)
    (read,) = found.run("SELECT p, id, v FROM t$branch_b")
    assert sorted(tuple(row.values()) for row in read.to_pylist()) == [(1, 1, 10), (1, 7, 17), (2, 2, 10)]
    assert rows(found) == ROWS


@pytest.mark.parametrize("key", [KEYED, APPEND], ids=["keyed", "append"])
def test_the_first_rows_of_another_job_are_not_overwritten_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    found = lake(tmp_path, key)
    list(found.run("DROP TABLE other; ALTER TABLE t RENAME TO other; CREATE TABLE t LIKE other"))
    beside(monkeypatch, tmp_path, ["INSERT INTO d.t VALUES (1, 7, 7)"])
    list(found.run("INSERT OVERWRITE t SELECT p, id, v + 10 FROM t UNION ALL SELECT 1, 1, 1"))
    assert rows(found) == [(1, 1, 1), (1, 7, 17)]


def test_a_merge_into_an_empty_table_does_not_replace_the_first_rows_of_another_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = lake(tmp_path, KEYED, ", 'write-only' = 'true'")
    list(found.run("DROP TABLE other; ALTER TABLE t RENAME TO other; CREATE TABLE t LIKE other"))
    real, others = TableWriter.prepare, iter(["INSERT INTO d.t VALUES (1, 1, 5)"])

    def prepared(writer: TableWriter, identifier: int | None = None) -> object:
        for statement in others:
            penstock.sql(statement, tmp_path, options=LOCAL)
        return real(writer, identifier)

    monkeypatch.setattr(TableWriter, "prepare", prepared)
    merge = "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
    list(found.run(f"MERGE INTO t USING (SELECT 1 AS p, 1 AS id, 1 AS v) AS s ON t.id = s.id AND t.p = s.p {merge}"))
    assert rows(found) == [(1, 1, 6)]
