"""Changes that the log describes only in part: `--reset` of their table passes them, and other tables lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.postgres.errors import IdentityTooWeak
from penstock.ingest.postgres.planner import PgPlanner
from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres

# Its deletes lack the primary key.
WEAK = (
    "ALTER TABLE t REPLICA IDENTITY USING INDEX t_v",
    "DELETE FROM t WHERE id = 3",
    "UPDATE t SET v = v + 10 WHERE id = 1",
    "ALTER TABLE t REPLICA IDENTITY DEFAULT",
)


class Ended(BaseException):
    """The end of a process that is killed."""


def end(*_: object) -> None:
    raise Ended


def begun(server: PgPlayground, folder: Path, *flags: str) -> PgSync:
    """Return a pipeline whose next batch has changes that cannot be read."""
    server.create("t", "id int PRIMARY KEY, v int NOT NULL, CONSTRAINT t_v UNIQUE (v)")
    server.create("u", "id int PRIMARY KEY, v int")
    server.run("ALTER TABLE u REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    server.run("INSERT INTO u VALUES (1, 1), (2, 2)")
    sync = PgSync(server, folder, flags=flags)
    sync.run()
    server.run(*WEAK, "UPDATE u SET v = 7 WHERE id = 1")
    with pytest.raises(IdentityTooWeak, match="--reset TABLE"):
        sync.run()
    return sync


@pytest.mark.parametrize("mode", ["watermark", "exact"])
def test_unreadable_changes_of_a_table_do_not_stop_its_reset(server: PgPlayground, tmp_path: Path, mode: str) -> None:
    flags = ("--table-conf", "changelog-producer=lookup") if mode == "exact" else ()
    sync = begun(server, tmp_path, *flags)
    # After the batch that failed. The other table's changes stand between.
    server.run("INSERT INTO u VALUES (3, 3)", "INSERT INTO t VALUES (3, 8)", *WEAK, "DELETE FROM u WHERE id = 2")
    PgSync(server, tmp_path, flags=[*flags, "--reset", "ods.t"]).run()
    assert {key: row["v"] for key, row in sync.rows("u").items()} == {1: 7, 3: 3}
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 21, 2: 2}
    assert all(verdict.is_equal for verdict in sync.verified().values())
    server.run("UPDATE t SET v = 99 WHERE id = 2", "INSERT INTO t VALUES (3, 3)")
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 21, 2: 99, 3: 3}


def test_a_reset_that_was_interrupted_is_carried_out_by_a_run_without_it(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = begun(server, tmp_path)

    def end(*_: object) -> None:
        raise Ended

    reset = PgSync(server, tmp_path, flags=["--reset", "ods.t"])
    with monkeypatch.context() as patched:
        patched.setattr(PgPlanner, "next", end)
        with pytest.raises(Ended):  # it has repeated the batch that failed, without the changes of t
            reset.run()
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 11, 2: 2}
    assert all(verdict.is_equal for verdict in sync.verified().values())


def weak(table: str) -> tuple[str, ...]:
    return (
        f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {table}_v",
        f"UPDATE {table} SET v = v + 10 WHERE id = 1",
        f"DELETE FROM {table} WHERE id = 3",
        f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT",
        f"INSERT INTO {table} VALUES (3, 3)",
    )


@pytest.mark.parametrize("mode", ["watermark", "exact"])
def test_tables_with_unreadable_changes_are_reset_one_after_the_other(
    server: PgPlayground, tmp_path: Path, mode: str
) -> None:
    flags = ["--table-conf", "changelog-producer=lookup"] if mode == "exact" else []
    for table in ("t", "u", "w"):
        server.create(table, f"id int PRIMARY KEY, v int NOT NULL, CONSTRAINT {table}_v UNIQUE (v)")
        server.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    sync = PgSync(server, tmp_path, flags=flags)
    sync.run()
    server.run(*weak("t"), "DELETE FROM w WHERE id = 2")
    with pytest.raises(IdentityTooWeak):
        sync.run()
    server.run(*weak("u"), "UPDATE w SET v = 7 WHERE id = 1", *weak("u"), *weak("t"))
    with pytest.raises(IdentityTooWeak):  # those of the other table
        PgSync(server, tmp_path, flags=[*flags, "--reset", "ods.t"]).run()
    server.run(*weak("u"))
    PgSync(server, tmp_path, flags=[*flags, "--reset", "ods.u"]).run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 21, 2: 2, 3: 3}
    assert {key: row["v"] for key, row in sync.rows("u").items()} == {1: 31, 2: 2, 3: 3}
    assert {key: row["v"] for key, row in sync.rows("w").items()} == {1: 7, 3: 3}
    assert all(verdict.is_equal for verdict in sync.verified().values())


def test_a_reset_that_was_interrupted_is_carried_out_once_by_one_of_all_tables(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun(server, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(PgPlanner, "next", end)
        with pytest.raises(Ended):
            PgSync(server, tmp_path, flags=["--reset", "ods.t"]).run()
    sync = PgSync(server, tmp_path, flags=["--resnapshot"])
    with caplog.at_level("INFO"):
        sync.run()
    assert caplog.text.count("event=table_emptied table=ods.t ") == 1
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 11, 2: 2}
    sync.run()
    assert not list((tmp_path / "checkpoint").rglob("reset-*"))


def test_a_reset_of_all_tables_that_was_interrupted_is_carried_out_by_a_run_without_it(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = begun(server, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(PgPlanner, "next", end)
        with pytest.raises(Ended):  # it has left out what could not be read
            PgSync(server, tmp_path, flags=["--resnapshot"]).run()
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 11, 2: 2}
    assert {key: row["v"] for key, row in sync.rows("u").items()} == {1: 7, 2: 2}
    sync.run()
    assert not list((tmp_path / "checkpoint").rglob("reset-*"))


def test_a_reset_that_was_interrupted_ends_with_its_table(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = begun(server, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(PgPlanner, "next", end)
        for _ in range(2):
            with pytest.raises(Ended):
                PgSync(server, tmp_path, flags=["--reset", "ods.t"]).run()
    server.run("DROP TABLE t", "INSERT INTO u VALUES (4, 4)")
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("u").items()} == {1: 7, 2: 2, 4: 4}
    assert not list((tmp_path / "checkpoint").rglob("reset-*"))
