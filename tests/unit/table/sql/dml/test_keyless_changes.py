"""UPDATE, DELETE and MERGE of tables without a key: the rows, the files that stay, and other jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError, PenstockError
from penstock.table.commit.attempt import commit_snapshot
from penstock.table.meta.snapshot import CommitKind
from penstock.table.operations import changed_files
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

TABLES = {
    "rewritten files": "'bucket' = '-1'",
    "deletion vectors": "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'",
    "buckets": "'bucket' = '2', 'bucket-key' = 'id'",
}
Rows = list[tuple[object, ...]]


class Lines:
    """A warehouse with a table without a key: two files in the partition a, and one in b."""

    def __init__(self, folder: Path, options: str) -> None:
        self.catalog = penstock.Catalog(folder, {"local.sync": "false"})
        self.interpreter = Interpreter(self.catalog)
        self.run(
            f"""CREATE DATABASE d; USE d;
            CREATE TABLE t (id INT, v STRING, p STRING) PARTITIONED BY (p) WITH ({options});
            INSERT INTO t VALUES (1, 'x', 'a'), (1, 'x', 'a'), (2, 'y', 'a');
            INSERT INTO t VALUES (3, 'z', 'a'); INSERT INTO t VALUES (1, 'x', 'b'), (9, NULL, 'b')"""
        )

    @property
    def table(self) -> penstock.Table:
        return self.catalog.table("d.t")

    def run(self, script: str) -> dict[str, object]:
        return list(self.interpreter.run(script))[-1].to_pylist()[0]  # type: ignore[no-any-return]  # Arrow's rows

    def rows(self, name: str = "t") -> Rows:
        found = list(self.interpreter.run(f"SELECT * FROM {name} ORDER BY ALL"))[-1].to_pylist()
        return [tuple(row.values()) for row in found]

    def files(self) -> set[str]:
        return set(self.table.system("files").column("file_path").to_pylist())

    def orphans(self) -> list[str]:
        return self.table.remove_orphan_files(dry_run=True, older_than=1 << 60)  # type: ignore[return-value]


@pytest.fixture(params=TABLES)
def lines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lines]:
    lines = Lines(tmp_path / "warehouse", TABLES[request.param])
    with lines.interpreter:
        yield lines
    check_invariants(lines.table)
    assert lines.orphans() == []


def changes(inserted: int = 0, updated: int = 0, deleted: int = 0, snapshot: int | None = 4) -> dict[str, object]:
    return {"inserted": inserted, "updated": updated, "deleted": deleted, "snapshot": snapshot}


@pytest.mark.slow
def test_rows_are_updated_in_one_overwrite_of_the_files_that_contain_them(lines: Lines) -> None:
    before = lines.files()
    assert lines.run("UPDATE t AS x SET v = upper(x.v), id = id + 10 WHERE x.v = 'z' OR p = 'b'") == changes(updated=3)
    assert lines.rows() == [
        (1, "x", "a"),
        (1, "x", "a"),
        (2, "y", "a"),
        (11, "X", "b"),
        (13, "Z", "a"),
        (19, None, "b"),
    ]
    latest = lines.table.latest_snapshot
    assert latest is not None
    assert latest.commit_kind is CommitKind.OVERWRITE
    # Those of the first insert have no matching row.
    kept = {path for path in before if "/p=a/" in path} & lines.files()
    assert len(kept) >= 1


@pytest.mark.slow
def test_all_rows_are_updated(lines: Lines) -> None:
    assert lines.run("UPDATE t SET v = 'w'") == changes(updated=6)
    assert {row[1] for row in lines.rows()} == {"w"}
    assert len(lines.rows()) == 6


@pytest.mark.slow
def test_rows_move_to_another_partition(lines: Lines) -> None:
    assert lines.run("UPDATE t SET p = 'c' WHERE id = 1") == changes(updated=3)
    assert lines.rows() == [(1, "x", "c")] * 3 + [(2, "y", "a"), (3, "z", "a"), (9, None, "b")]


@pytest.mark.slow
def test_a_statement_that_matches_nothing_commits_nothing(lines: Lines) -> None:
    assert lines.run("UPDATE t SET v = 'w' WHERE id > 100") == changes(snapshot=None)
    assert lines.run("DELETE FROM t WHERE id IN (SELECT 100)") == changes(snapshot=None)


@pytest.mark.slow
def test_queries_in_conditions_and_values_read_the_snapshot_that_is_changed(lines: Lines) -> None:
    assert lines.run("UPDATE t SET id = (SELECT max(id) FROM t) WHERE id = (SELECT min(id) FROM t)")["updated"] == 3
    assert [row[0] for row in lines.rows()] == [2, 3, 9, 9, 9, 9]
    assert lines.run("DELETE FROM t AS x WHERE EXISTS (SELECT 1 FROM t AS y WHERE y.id > x.id)")["deleted"] == 2


@pytest.mark.slow
def test_random_conditions_and_values_are_evaluated_once(lines: Lines) -> None:
    lines.run("INSERT INTO t SELECT range + 100, 'r', 'a' FROM range(200)")
    result = lines.run("UPDATE t SET id = 1000 + CAST(floor(random() * 1000) AS INT) WHERE v = 'r' AND random() < 0.5")
    rows = lines.rows()
    assert len(rows) == 206
    assert sum(1 for row in rows if isinstance(row[0], int) and row[0] >= 1000) == result["updated"]


@pytest.mark.slow
def test_the_clauses_of_merge(lines: Lines) -> None:
    result = lines.run(
        """MERGE INTO t USING (SELECT 1 AS id, 'n' AS v UNION ALL SELECT 2, 'gone' UNION ALL SELECT 50, 'new'
            UNION ALL SELECT 50, 'new' UNION ALL SELECT 51, 'no') AS s ON t.id = s.id
        WHEN MATCHED AND s.v = 'gone' THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.v || t.p
        WHEN NOT MATCHED AND s.v = 'new' THEN INSERT (id, v, p) VALUES (s.id, s.v, 'c')
        WHEN NOT MATCHED BY SOURCE AND t.v IS NULL THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'alone'"""
    )
    assert result == changes(inserted=2, updated=4, deleted=2)
    assert lines.rows() == [
        (1, "na", "a"),
        (1, "na", "a"),
        (1, "nb", "b"),
        (3, "alone", "a"),
        (50, "new", "c"),
        (50, "new", "c"),
    ]


@pytest.mark.slow
def test_a_merge_that_only_inserts_appends(lines: Lines) -> None:
    before = lines.files()
    lines.run(
        "MERGE INTO t USING (SELECT 7 AS id, 'n' AS v, 'a' AS p) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    latest = lines.table.latest_snapshot
    assert latest is not None
    assert latest.commit_kind is CommitKind.APPEND
    assert before < lines.files()


@pytest.mark.slow
def test_several_source_rows_for_one_row(lines: Lines) -> None:
    source = "(SELECT 1 AS id, 'a' AS v UNION ALL SELECT 1, 'b') AS s ON t.id = s.id"
    with pytest.raises(ConfigError, match="several source rows would change one row"):
        lines.run(f"MERGE INTO t USING {source} WHEN MATCHED THEN UPDATE SET v = s.v")
    # The first row of the source does nothing.
    assert lines.run(f"MERGE INTO t USING {source} WHEN MATCHED AND s.v = 'b' THEN UPDATE SET v = 'u'")["updated"] == 3
    assert lines.run(f"MERGE INTO t USING {source} WHEN MATCHED THEN DELETE") == changes(deleted=3, snapshot=5)


@pytest.mark.slow
def test_a_statement_that_fails_changes_nothing(lines: Lines) -> None:
    before = lines.files()
    with pytest.raises(PenstockError, match="Conversion"):
        lines.run("UPDATE t SET id = CAST(v AS INT)")
    assert lines.files() == before


def meanwhile(monkeypatch: pytest.MonkeyPatch, times: int, job: Callable[[], object]) -> None:
    """Let another job commit just before the next commits of changed files."""
    real, left = commit_snapshot, [*range(times)]

    def commit(*given: object) -> object:
        if left:
            left.pop()
            monkeypatch.setattr(changed_files, "commit_snapshot", real)
            job()
            monkeypatch.setattr(changed_files, "commit_snapshot", commit)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(changed_files, "commit_snapshot", commit)


@pytest.mark.slow
def test_a_statement_is_repeated_when_another_job_changed_its_files(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, 2, lambda: penstock.sql("UPDATE d.t SET id = id + 1 WHERE p = 'a'", lines.catalog.warehouse))
    assert lines.run("UPDATE t SET v = CAST(id AS STRING)")["updated"] == 6
    assert lines.rows() == [(1, "1", "b"), (3, "3", "a"), (3, "3", "a"), (4, "4", "a"), (5, "5", "a"), (9, "9", "b")]


@pytest.mark.slow
def test_a_statement_gives_up_after_three_conflicts(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, 3, lambda: penstock.sql("UPDATE d.t SET id = id + 1 WHERE p = 'a'", lines.catalog.warehouse))
    with pytest.raises(CommitConflict, match="another job"):
        lines.run("DELETE FROM t WHERE id IN (SELECT id FROM t)")
    assert len(lines.rows()) == 6


@pytest.mark.slow
def test_rows_that_another_job_adds_are_no_conflict(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = "INSERT INTO d.t VALUES (77, 'other', 'a')"
    meanwhile(monkeypatch, 1, lambda: penstock.sql(insert, lines.catalog.warehouse))
    assert lines.run("UPDATE t SET v = 'w'")["updated"] == 6
    assert (77, "other", "a") in lines.rows()


@pytest.mark.slow
def test_session_options_do_not_bring_old_rows_back(lines: Lines) -> None:
    lines.run("DELETE FROM t WHERE id = 1; SET spark.paimon.scan.snapshot-id = 1")
    assert len(lines.rows()) == 3
    assert lines.run("UPDATE t SET v = 'w' WHERE p = 'a'")["updated"] == 2
    lines.run("RESET")
    assert lines.rows() == [(2, "w", "a"), (3, "w", "a"), (9, None, "b")]


@pytest.mark.slow
def test_values_that_are_not_set_stay_as_they_are(tmp_path: Path) -> None:
    columns = """id INT, c CHAR(3), d DECIMAL(38, 9), b BYTES, o BOOLEAN, f FLOAT, day DATE, t TIME(3), ts TIMESTAMP(6),
        tz TIMESTAMP_LTZ(3), a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y STRING>"""
    values = """1, 'abc', 12345678901234567890.123456789, '\\xAA'::BLOB, true, 1.5, DATE '2026-01-02',
        TIME '01:02:03.004',
        TIMESTAMP '2026-01-02 03:04:05.678901', TIMESTAMPTZ '2026-01-02 03:04:05.678+00', [1, NULL],
        MAP {'k': 1}, {'x': 1, 'y': 'z'}"""
    lines = Lines(tmp_path, "'bucket' = '-1'")
    with lines.interpreter:
        lines.run(f"CREATE TABLE w ({columns}); INSERT INTO w VALUES ({values}); INSERT INTO w (id) VALUES (1)")
        before = lines.rows("w")
        assert lines.run("UPDATE w SET id = 2")["updated"] == 2
        assert lines.rows("w") == [(2, *row[1:]) for row in before]
