"""Changes that the log describes only in part: `--reset` of their table passes them, and other tables lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.mysql.errors import PartialJsonError, RowImageError, StatementBinlogError
from penstock.ingest.mysql.planner import Planner
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

MINIMAL = ("SET SESSION binlog_row_image = MINIMAL", "SET SESSION binlog_row_image = FULL")
STATEMENT = ("SET SESSION binlog_format = STATEMENT", "SET SESSION binlog_format = ROW")
JSON = ("SET SESSION binlog_row_value_options = PARTIAL_JSON", "SET SESSION binlog_row_value_options = ''")


class Ended(BaseException):
    """The end of a process that is killed."""


@pytest.mark.parametrize(
    ("mode", "session", "change", "error"),
    [
        ("watermark", MINIMAL, "UPDATE t SET v = v + 10 WHERE id < 3", RowImageError),
        ("exact", MINIMAL, "UPDATE t SET v = v + 10 WHERE id < 3", RowImageError),
        ("watermark", STATEMENT, "UPDATE t SET v = v + 10 WHERE id < 3", StatementBinlogError),
        ("watermark", JSON, "UPDATE t SET j = JSON_SET(j, '$.a', v) WHERE id < 3", PartialJsonError),
    ],
    ids=["minimal", "minimal-exact", "statement", "json"],
)
def test_unreadable_changes_of_a_table_do_not_stop_its_reset(
    server: Playground, tmp_path: Path, mode: str, session: tuple[str, str], change: str, error: type[Exception]
) -> None:
    if server.is_mariadb and session is JSON:
        pytest.skip("MariaDB logs whole JSON values")
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, j JSON)",
        "CREATE TABLE u (id INT PRIMARY KEY, v INT)",
        'INSERT INTO t VALUES (1, 1, \'{"a": "long enough"}\'), (2, 2, \'{"a": "long enough"}\'), (3, 3, NULL)',
        "INSERT INTO u VALUES (1, 1), (2, 2)",
    )
    sync = Sync(server, tmp_path, conf=[f"snapshot-mode={mode}"])
    sync.run()
    server.run(session[0], change, session[1], "DELETE FROM t WHERE id = 3", "UPDATE u SET v = 7 WHERE id = 1")
    for _ in range(2):
        with pytest.raises(error, match="--reset TABLE"):
            sync.run()
    # After the batch that failed. The other table's changes stand between.
    server.run("INSERT INTO u VALUES (3, 3)", session[0], change, session[1], "DELETE FROM u WHERE id = 2")
    Sync(server, tmp_path, conf=sync.conf, flags=["--reset", "ods.t"]).run()
    assert {(row["id"], row["v"]) for row in sync.rows("u")} == {(1, 7), (3, 3)}
    assert sync.ids("t") == [1, 2]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    server.run("UPDATE t SET v = 99 WHERE id = 2")
    sync.run()
    assert [row["v"] for row in sync.rows("t")][1] == 99


def with_unreadable_changes(server: Playground, folder: Path) -> Sync:
    """Return a pipeline of two tables that ends with the changes of one of them, which have no whole rows."""
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO u VALUES (1, 1)",
    )
    sync = Sync(server, folder)
    sync.run()
    server.run(MINIMAL[0], "UPDATE t SET v = 9 WHERE id = 1", MINIMAL[1], "DELETE FROM t WHERE id = 3")
    server.run("INSERT INTO u VALUES (2, 2)")
    with pytest.raises(RowImageError):
        sync.run()
    return sync


def test_a_reset_of_all_tables_that_was_interrupted_is_carried_out_by_a_run_without_it(
    server: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = with_unreadable_changes(server, tmp_path)

    def end(*_: object) -> None:
        raise Ended

    with monkeypatch.context() as patched:
        patched.setattr(Planner, "next", end)
        with pytest.raises(Ended):  # it has left out what could not be read
            Sync(server, tmp_path, flags=["--resnapshot"]).run()
    sync.run()
    assert [(row["id"], row["v"]) for row in sync.rows("t")] == [(1, 9), (2, 2)]
    assert [(row["id"], row["v"]) for row in sync.rows("u")] == [(1, 1), (2, 2)]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    snapshots = len(sync.target("t").snapshots)
    sync.run()
    assert len(sync.target("t").snapshots) == snapshots  # once


@pytest.mark.parametrize("flags", [[], ["--resnapshot"]])
def test_a_reset_that_was_interrupted_is_carried_out_once_by_a_run_without_it(
    server: Playground,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    flags: list[str],
) -> None:
    sync = with_unreadable_changes(server, tmp_path)

    def end(*_: object) -> None:
        raise Ended

    reset = Sync(server, tmp_path, flags=["--reset", "ods.t"])
    with monkeypatch.context() as patched:
        patched.setattr(Planner, "next", end)
        with pytest.raises(Ended):  # it has repeated the batch that failed, without the changes of t
            reset.run()
    with caplog.at_level("INFO"):
        Sync(server, tmp_path, flags=flags).run()
    assert caplog.text.count("event=table_emptied table=ods.t ") == 1
    assert [(row["id"], row["v"]) for row in sync.rows("t")] == [(1, 9), (2, 2)]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    snapshots = len(sync.target("t").snapshots)
    sync.run()
    assert len(sync.target("t").snapshots) == snapshots  # once
