"""PostgreSQL 18: tests of all versions that depend on the version, and standbys that are promoted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.ingest.postgres.errors import Diverged, SlotMissing
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync
from tests.integration.postgres.test_altered_tables import settle
from tests.integration.postgres.test_checks import found
from tests.integration.postgres.test_sync import (  # noqa: F401 - collected here, with the server of this file
    test_columns_are_added_and_widened,
    test_partitioned_tables_are_captured_as_one,
    test_table_is_copied_followed_and_continued_after_a_restart,
    test_unchanged_long_values_are_kept,
    test_values_are_the_same_from_snapshot_and_log,
)
from tests.servers.launch import Kind, free_port, kill, promote, standby, start, stop
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
KIND: Kind = "postgres-18"
# Of the slot on a standby: it stays after a promotion.
IS_SYNCED = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{SLOT}' AND synced AND NOT temporary"
_PATIENCE_S = LIMIT_S


@dataclass(frozen=True)
class Place:
    """A folder for servers, and the port of the first one."""

    folder: Path
    port: int


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    # Not below pytest's folders: the servers run as a user of their own, which may not enter them.
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-18-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            yield Place(folder, free_port())
        finally:
            for server in folder.iterdir():
                stop(KIND, server)


@pytest.fixture
def server(place: Place) -> PgPlayground:
    # A test before may have killed it.
    start(KIND, place.folder / "primary", place.port)
    found = PgPlayground(place.port)
    found.start_over()
    return found


@dataclass(frozen=True)
class Copy(PgPlayground):
    """A standby of the server."""

    folder: Path

    def take_over(self, primary: Path) -> None:
        kill(KIND, primary)
        promote(KIND, self.folder)

    def has_all_of(self, primary: PgPlayground) -> bool:
        end = primary.run("SELECT pg_current_wal_flush_lsn()")
        return self.run(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") == "t"


@pytest.fixture
def copy(server: PgPlayground, place: Place) -> Copy:
    server.create("t", "id int PRIMARY KEY, n int")
    server.run("INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i")
    port = free_port()
    folder = place.folder / f"standby-{port}"
    standby(KIND, place.folder / "primary", folder, port)
    return Copy(port, folder)


def until(true: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < limit, what
        time.sleep(0.05)


def equal(sync: PgSync) -> bool:
    mine = sorted((row["id"], row["n"]) for row in sync.rows().values())
    theirs = sync.server.run("SELECT id, n FROM t ORDER BY id").splitlines()
    return [f"{key}|{n}" for key, n in mine] == theirs


def test_pipeline_continues_on_a_promoted_standby(
    server: PgPlayground, copy: Copy, place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # With it, readers do not get changes that the standby lacks.
    server.run(f"ALTER SYSTEM SET synchronized_standby_slots = 'standby_{copy.port}'", "SELECT pg_reload_conf()")
    sync = PgSync(server, tmp_path, table="t", conf=["table-name=t", "slot.failover=true"])
    sync.run()

    def is_synced() -> bool:
        # The standby takes over a slot that needs no older transactions than itself, so nothing is written meanwhile.
        server.run("SELECT pg_log_standby_snapshot()")
        sync.run()
        until(lambda: copy.has_all_of(server), "the standby is behind")
        copy.run("SELECT pg_sync_replication_slots()")
        return copy.run(IS_SYNCED) == "1"

    until(is_synced, "the slot is not on the standby")
    server.run("INSERT INTO t VALUES (1000, 1)", "DELETE FROM t WHERE id = 2")
    until(lambda: copy.has_all_of(server), "the standby is behind")
    copy.take_over(place.folder / "primary")
    copy.run("INSERT INTO t VALUES (1001, 2)")
    sync.server = copy
    sync.run()
    assert equal(sync)
    assert {1000, 1001} <= set(sync.rows())
    copy.run("UPDATE t SET n = 7 WHERE id = 3")
    stop(KIND, copy.folder)
    start(KIND, copy.folder, copy.port)
    sync.run()
    assert equal(sync)
    assert "event=log_not_compared" not in caplog.text  # its log was that of the primary


def test_changes_that_the_promoted_standby_never_had_are_reported(
    server: PgPlayground, copy: Copy, place: Place, tmp_path: Path
) -> None:
    sync = PgSync(server, tmp_path, table="t", conf=["table-name=t"])
    sync.run()
    stop(KIND, copy.folder)
    server.run("INSERT INTO t VALUES (1000, 1)")
    sync.run()
    kill(KIND, place.folder / "primary")
    start(KIND, copy.folder, copy.port)
    promote(KIND, copy.folder)
    sync.server = copy
    with pytest.raises(Diverged) as caught:
        sync.run()
    assert (caught.value.facts["timeline_before"], caught.value.facts["timeline_now"]) == (1, 2)
    assert caught.value.exit_code == 4
    sync.flags = ["--resnapshot"]
    sync.run()
    assert equal(sync)
    assert 1000 not in sync.rows()


def test_slot_that_is_not_on_the_promoted_standby_is_reported(
    server: PgPlayground, copy: Copy, place: Place, tmp_path: Path
) -> None:
    sync = PgSync(server, tmp_path, table="t", conf=["table-name=t"])
    sync.run()
    server.run("INSERT INTO t VALUES (1000, 1)")
    until(lambda: copy.has_all_of(server), "the standby is behind")
    copy.take_over(place.folder / "primary")
    sync.server = copy
    with pytest.raises(SlotMissing, match="does not exist any more") as caught:
        sync.run()
    assert "--resnapshot" in (caught.value.hint or "")
    sync.flags = ["--resnapshot"]
    sync.run()
    assert equal(sync)


def test_a_generated_column_that_gets_an_expression_and_then_none_keeps_its_last_values(
    server: PgPlayground, tmp_path: Path
) -> None:
    server.create("t", "id int PRIMARY KEY, v int, a int GENERATED ALWAYS AS (v * 2) STORED")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t ALTER a SET EXPRESSION AS (v * 5)", "UPDATE t SET v = 3 WHERE id = 2")
    settle(sync)
    assert set(sync.rows("t")[1]) == {"id", "v"}
    server.run("ALTER TABLE t ALTER a DROP EXPRESSION", "UPDATE t SET v = 4 WHERE id = 2")
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {1: 5, 2: 15}


def test_a_publication_of_generated_columns_is_named(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY, v int, a int GENERATED ALWAYS AS (v * 2) STORED")
    server.run("CREATE PUBLICATION p FOR TABLE t")
    assert found(server) == {}
    server.run("ALTER PUBLICATION p SET (publish_generated_columns = stored)")
    assert "generated columns of t" in found(server)["PublicationMissing"].message
