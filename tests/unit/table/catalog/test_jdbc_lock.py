"""The lock of a table in a JDBC catalog: between processes, when it expires, and when it is not obtained."""

from __future__ import annotations

import logging
import pickle
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CommitConflict, ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.jdbc_catalog import JdbcCatalog
from penstock.table.catalog.jdbc_database import JdbcDatabase
from penstock.table.catalog.jdbc_lock import JdbcLocks
from penstock.table.handle import Table
from tests.invariants import check_invariants
from tests.locked_catalog import OverwritingStorage
from tests.together import exit_codes, wait_for_others

ROW_TYPE = pa.schema([("id", pa.int32())])


def locks(folder: Path, acquire_millis: int = 60_000) -> JdbcLocks:
    return JdbcLocks(JdbcDatabase.of(f"jdbc:sqlite:{folder}/names.db", {}), "lake", acquire_millis, 50, 255)


def catalog(folder: Path, given: JdbcLocks | None) -> Catalog:
    """Return a catalog on a store that overwrites files, as the stores do on which Java locks its tables."""
    database = locks(folder).database
    backend = JdbcCatalog(
        OverwritingStorage(sync=False), f"{folder}/warehouse", database=database, key="lake", locks=given
    )
    return Catalog(f"{folder}/warehouse", backend=backend)


def rows(folder: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(folder / "names.db") as connection:
        return connection.execute("SELECT lock_id, expire_time_seconds FROM paimon_distributed_locks").fetchall()


def events(given: Catalog) -> Table:
    given.create_database("shop")
    return given.create_table("shop.events", [("id", "INT")], options={"bucket": "-1", "commit.max-retries": "100"})


def append(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": list(ids)}, schema=ROW_TYPE))
        writer.commit()


def append_from(folder: str, first: str, count: str) -> None:
    """Commit in a process of its own."""
    table = catalog(Path(folder), locks(Path(folder))).table("shop.events")
    OverwritingStorage.moment_s = 0.02  # of two commits, one would be lost without the lock
    wait_for_others()
    for number in range(int(first), int(first) + int(count)):
        append(table, number)


@pytest.mark.slow
def test_two_processes_lose_no_commit_on_a_store_that_overwrites(tmp_path: Path) -> None:
    table = events(catalog(tmp_path, locks(tmp_path)))
    code = f"import sys; from {__name__} import append_from; append_from(*sys.argv[1:])"
    words = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    assert exit_codes(*([*words, first, "15"] for first in ("0", "100"))) == [0, 0]
    ids = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    assert ids == [first + number for first in (0, 100) for number in range(15)]
    assert rows(tmp_path) == []
    check_invariants(table)


@pytest.mark.slow
def test_a_commit_waits_for_the_lock_and_fails_without_it(tmp_path: Path) -> None:
    table = events(catalog(tmp_path, locks(tmp_path, 200)))
    with locks(tmp_path).held("shop.events", Environment()):
        assert rows(tmp_path) == [("lake.shop.events", 60)]
        with pytest.raises(CommitConflict, match="locked by another writer: waited for 200 ms"):
            append(table, 1)
        with pytest.raises(CommitConflict, match="locked by another writer"):
            catalog(tmp_path, locks(tmp_path, 200)).rename_table("shop.events", "shop.other")
    assert not list(Path(table.path).rglob("manifest-*"))
    append(table, 2)
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == [2]
    check_invariants(table)


@pytest.mark.slow
def test_branches_have_separate_locks_as_in_java(tmp_path: Path) -> None:
    table = events(catalog(tmp_path, locks(tmp_path, 200)))
    append(table, 1)
    table.create_tag("t")
    branch = table.create_branch("b", "t")
    with locks(tmp_path).held("shop.events$branch_b", Environment()):
        append(table, 2)
        with pytest.raises(CommitConflict, match="locked") as caught:
            append(branch, 3)
    assert caught.value.facts["lock"] == "lake.shop.events$branch_b"


def test_an_expired_lock_is_removed_and_only_by_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events(catalog(tmp_path, locks(tmp_path)))
    with sqlite3.connect(tmp_path / "names.db") as connection:
        into = "INSERT INTO paimon_distributed_locks (lock_id, acquired_at, expire_time_seconds) VALUES (?, ?, 480)"
        connection.execute(into, ("lake.shop.events", "2020-01-01 00:00:00"))
        connection.execute(into, ("lake.shop.users", "2020-01-01 00:00:00"))
    with locks(tmp_path, 100).held("shop.events", Environment()):
        assert sorted(rows(tmp_path)) == [("lake.shop.events", 0), ("lake.shop.users", 480)]
    assert "event=expired_lock_removed lock=lake.shop.events" in caplog.text
    assert rows(tmp_path) == [("lake.shop.users", 480)]


def test_a_lock_that_another_writer_has_after_ours_expired_is_not_released(tmp_path: Path) -> None:
    events(catalog(tmp_path, locks(tmp_path)))
    with locks(tmp_path).held("shop.events", Environment()), sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute("UPDATE paimon_distributed_locks SET acquired_at = '2090-01-01 00:00:00'")
        connection.commit()
    assert rows(tmp_path) == [("lake.shop.events", 60)]


def test_a_lock_that_cannot_be_requested_commits_nothing(tmp_path: Path) -> None:
    table = events(catalog(tmp_path, locks(tmp_path)))
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute("DROP TABLE paimon_distributed_locks")
    with pytest.raises(CommitConflict, match="the lock of the table cannot be requested"):
        append(table, 1)
    assert not list(Path(table.path).rglob("manifest-*"))


def test_a_lock_that_cannot_be_released_does_not_fail_the_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events(catalog(tmp_path, locks(tmp_path)))
    with caplog.at_level(logging.WARNING), locks(tmp_path).held("shop.events", Environment()):
        (tmp_path / "names.db").unlink()
        (tmp_path / "names.db").mkdir()
    assert "event=lock_not_released lock=lake.shop.events" in caplog.text


def test_a_name_that_is_too_long_for_a_lock_is_refused(tmp_path: Path) -> None:
    short = replace(locks(tmp_path), max_key_length=10)
    with (
        pytest.raises(ConfigError, match="the name of the table's lock is too long"),
        short.held("shop.e", Environment()),
    ):
        pass


def test_commits_are_pickled_without_secrets(tmp_path: Path) -> None:
    table = events(catalog(tmp_path, locks(tmp_path)))
    assert pickle.loads(pickle.dumps(table.store.commits)) == table.store.commits


HOUR = 3_600_000


class SetClock:
    """A clock of the machine that is set by some milliseconds while somebody waits."""

    def __init__(self, by: int, woken: Callable[[], object] = lambda: None) -> None:
        self.by, self.woken, self.naps = by, woken, 0

    @property
    def environment(self) -> Environment:
        return Environment(now_millis=lambda: self.by * (self.naps > 0), sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.naps += 1
        assert self.naps < 1000, "the wait does not end"
        self.woken()
        time.sleep(seconds)


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_clock_that_is_set_while_a_commit_waits_for_the_lock_changes_nothing(tmp_path: Path, by: int) -> None:
    events(catalog(tmp_path, locks(tmp_path)))
    with ExitStack() as owner:
        owner.enter_context(locks(tmp_path).held("shop.events", Environment()))
        with (
            pytest.raises(CommitConflict, match="locked by another writer"),
            locks(tmp_path, 50).held("shop.events", SetClock(by).environment),
        ):
            pass
        with locks(tmp_path, 60_000).held("shop.events", SetClock(by, owner.close).environment):
            assert rows(tmp_path) == [("lake.shop.events", 60)]
