"""Startup modes of a pipeline, refused ones, and how tables are read: exactly, without a key, again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError, PositionLost
from penstock.formats.change import ChangeBatch
from penstock.ingest.database.findings import MissingGrant, SourceNotReady
from penstock.ingest.mysql import read_range as reading
from penstock.ingest.mysql.errors import BinlogPurged, RowImageError
from penstock.ingest.mysql.server.address import ServerAddress
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.read import read_chunk
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync


def table(server: Playground, *ids: int) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT)")
    insert(server, *ids)


def insert(server: Playground, *ids: int) -> None:
    server.run("INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}', 1)" for n in ids))


def start(mode: str, **more: object) -> list[str]:
    return [
        "table-name=t",
        f"scan.startup.mode={mode}",
        *(f"scan.startup.{name.replace('_', '-')}={value}" for name, value in more.items()),
    ]


def test_latest_captures_only_later_changes(server: Playground, tmp_path: Path) -> None:
    table(server, 1)
    sync = Sync(server, tmp_path, "t", start("latest-offset"))
    sync.run()
    assert sync.ids() == []
    insert(server, 2)
    sync.run()
    assert sync.ids() == [2]


def test_startup_mode_snapshot_copies_the_tables_and_ends(server: Playground, tmp_path: Path) -> None:
    table(server, 1)
    sync = Sync(server, tmp_path, "t", start("snapshot"))
    sync.flags = ["--name", "once"]
    assert sync.spec.pipeline.until == "caught-up"
    sync.run()
    assert sync.ids() == [1]


def test_startup_after_a_position_or_a_gtid_set(server: Playground, tmp_path: Path) -> None:
    table(server, 1)
    here = server.here()
    insert(server, 2)
    place = start("specific-offset", **{"specific-offset.file": here.file, "specific-offset.pos": here.pos})
    by_place = Sync(server, tmp_path / "place", "t", place)
    by_place.run()
    gtid = start("specific-offset", **{"specific-offset.gtid-set": here.gtid})
    by_set = Sync(server, tmp_path / "set", "t", gtid)
    by_set.run()
    insert(server, 3)
    for sync in (by_place, by_set):
        sync.run()
        assert sync.ids() == [2, 3]


@pytest.mark.mysql
def test_startup_at_earliest_and_at_a_time(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("PURGE BINARY LOGS TO '" + mysql.here().file + "'")
    table(mysql, 1)
    time.sleep(1.1)
    moment = int(time.time()) * 1000
    insert(mysql, 2)
    earliest = Sync(mysql, tmp_path / "earliest", "t", start("earliest-offset"))
    earliest.run()
    assert earliest.ids() == [1, 2]
    since = Sync(mysql, tmp_path / "since", "t", start("timestamp", timestamp_millis=moment))
    since.run()
    assert since.ids() == [2]


@pytest.mark.parametrize("names", ["none", "all"])
def test_a_first_batch_over_several_binlogs_has_all_definitions(server: Playground, tmp_path: Path, names: str) -> None:
    """The table is gone when the pipeline begins, so its definition is only in the first of the two files."""
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    bare = "NO_LOG" if server.is_mariadb else "MINIMAL"
    server.run(f"SET GLOBAL binlog_row_metadata = '{bare if names == 'none' else 'FULL'}'")
    try:
        server.start_over()
        here = server.here()
        server.run("CREATE TABLE gone (id INT PRIMARY KEY, flag TINYINT(1))", "INSERT INTO gone VALUES (1, 1)")
        server.run("DROP TABLE gone", "FLUSH BINARY LOGS")
        table(server, 2)
        place = {"specific-offset.file": here.file, "specific-offset.pos": here.pos}
        sync = Sync(server, tmp_path, conf=start("specific-offset", **place)[1:])
        sync.run()
        assert (sync.rows("gone"), sync.ids("t")) == ([{"id": 1, "flag": True}], [2])
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = '{before}'")


@pytest.mark.mysql
def test_a_wrong_mode_is_reported_with_the_valid_ones(mysql: Playground, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Unknown scan.startup.mode='never'. Valid .* \[initial, "):
        Sync(mysql, tmp_path, "t", start("never")).run()


@pytest.mark.mysql
def test_an_unknown_time_zone_is_reported_at_once(mysql: Playground, tmp_path: Path) -> None:
    for mode in ("GMT+8", "Nowhere/Land"):
        with pytest.raises(ConfigError, match=r"no entry in the zone database(?s:.*)Europe/Berlin"):
            Sync(mysql, tmp_path, conf=[f"server-time-zone={mode}"]).run()


@pytest.mark.mysql
def test_all_problems_of_a_server_are_reported_at_once(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    table(mysql, 1)
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"])
    mysql.run("DROP USER IF EXISTS poor", "CREATE USER poor IDENTIFIED BY 'poor'", "GRANT SELECT ON play.* TO poor")
    sync.conf = [*sync.conf, "username=poor", "password=poor"]
    mysql.run("SET GLOBAL binlog_row_image = 'MINIMAL'")
    try:
        with pytest.raises(SourceNotReady) as caught:
            sync.run()
        message = str(caught.value)
        assert "binlog_row_image = FULL" in message
        assert "GRANT REPLICATION SLAVE ON *.* TO" in message
        assert "GRANT REPLICATION CLIENT ON *.* TO" in message
        assert not (tmp_path / "warehouse").exists()
        sync.conf = ["table-name=t"]
        with pytest.raises(RowImageError):
            sync.run()
    finally:
        mysql.run("SET GLOBAL binlog_row_image = 'FULL'")
    sync.conf = ["table-name=t", "username=poor", "password=poor"]
    mysql.run("GRANT REPLICATION CLIENT ON *.* TO poor")
    with pytest.raises(MissingGrant):
        sync.run()


def test_a_table_is_copied_again_on_a_signal_while_the_others_continue(server: Playground, tmp_path: Path) -> None:
    table(server, *range(100))
    server.run("CREATE TABLE other (id INT PRIMARY KEY)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("SET SESSION sql_log_bin = 0", "UPDATE t SET v = 'unlogged'", "SET SESSION sql_log_bin = 1")
    server.run("INSERT INTO other VALUES (5)")
    sync.run()
    assert {row["v"] for row in sync.rows("t")} == {f"v{n}" for n in range(100)}
    signals = Path(sync.spec.checkpoint) / "signals"
    signals.mkdir(exist_ok=True)
    (signals / "snapshot-1.json").write_text(json.dumps({"tables": ["play.t"]}))
    sync.run()
    assert {row["v"] for row in sync.rows("t")} == {"unlogged"}
    assert sync.ids("other") == [5]
    server.run("INSERT INTO other VALUES (6)")
    sync.run()
    assert list(signals.glob("snapshot-*")) == []


ADDED_UP = [
    *("--table-conf", "merge-engine=aggregation"),
    *("--table-conf", "fields.n.aggregate-function=sum"),
    *("--table-conf", "bucket=1"),
]


def test_an_aggregating_table_applies_each_change_once(server: Playground, tmp_path: Path) -> None:
    table(server, *range(300))
    flags = [*ADDED_UP, "--primary-keys", "v", "--max-batch-rows", "60"]
    sync = Sync(server, tmp_path, "t", ["table-name=t", "scan.incremental.snapshot.chunk.size=50"], flags)
    server.run("UPDATE t SET v = CONCAT('v', id % 7)")
    turns = 0

    def meanwhile(*_: object) -> None:
        nonlocal turns
        turns += 1
        server.run(
            f"UPDATE t SET n = n + 1 WHERE id % {turns + 1} = 0",
            f"DELETE FROM t WHERE id = {turns * 30}",
            f"INSERT INTO t VALUES ({1000 + turns}, 'v3', 10)",
        )

    sync.run(meanwhile)
    sync.run()
    wanted = server.rows("SELECT v, SUM(n) FROM t GROUP BY v ORDER BY v")
    assert turns > 3
    assert [(row["v"], row["n"]) for row in sync.rows(order="v")] == [(v, int(n)) for v, n in wanted]


def test_a_table_without_a_key_is_read_at_one_position(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, 'b')")
    flags = ["--sync-primary-keys-from-source-schema", "false"]
    sync = Sync(server, tmp_path, "t", ["table-name=t"], flags)
    sync.run()
    server.run("INSERT INTO t VALUES (1, 'a'), (3, 'c')")
    sync.run()
    assert sync.ids() == [1, 1, 1, 2, 3]
    by_name = Sync(server, tmp_path / "all", flags=["--include-keyless", "append"])
    by_name.run()
    assert by_name.ids("t") == [1, 1, 1, 2, 3]


def test_a_table_without_a_key_is_refused_if_a_key_is_required(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT NOT NULL, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(ConfigError, match="primary key"):
        Sync(server, tmp_path, "t", ["table-name=t"]).run()
    sync = Sync(server, tmp_path, "t", ["table-name=t"], ["--primary-keys", "id"])
    sync.run()
    assert sync.target().primary_keys == ["id"] or sync.target().primary_keys == ("id",)
    assert sync.ids() == [1]


class Died(PenstockError):
    """The driver's death right behind a commit."""


def test_a_snapshot_resumes_at_its_chunk_if_the_driver_is_killed_after_a_commit(
    server: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(server, *range(1000))
    server.run("ANALYZE TABLE t")
    read: list[int] = []

    def noted(address: ServerAddress, chunk: Chunk, *more: Any) -> Iterator[ChangeBatch]:
        read.append(chunk.number)
        return read_chunk(address, chunk, *more)

    def dying(identity: BatchIdentity, report: object) -> None:
        if identity.number == 2:
            raise Died("died right behind a commit")

    monkeypatch.setattr(reading, "read_chunk", noted)
    sync = Sync(server, tmp_path, "t", ["table-name=t", "scan.incremental.snapshot.chunk.size=100"])
    sync.flags = ["--max-batch-rows", "200"]
    with pytest.raises(Died):
        sync.run(dying)
    first, before = sorted(read), sync.target().latest_snapshot
    assert before is not None
    assert len(sync.ids()) == 100 * len(first)
    read.clear()
    sync.run()
    assert sync.ids() == list(range(1000))
    assert set(read) & set(first) <= set(first[-2:])  # the last batch is looked at again, and nothing before it
    assert json.loads(before.properties["penstock.end"])["cursors"]  # where the copy stands travels in the commit


@pytest.mark.mysql
@pytest.mark.parametrize("unread", [False, True], ids=["all read", "not all read"])
def test_a_purged_log_of_transactions_without_gtids_may_lack_unread_ones(
    mysql: Playground, tmp_path: Path, unread: bool
) -> None:
    """No list of the server has them, so it looks as if all that is gone had been read."""
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"])
    sync.run()
    try:
        mysql.run(*(f"SET GLOBAL gtid_mode = {mode}" for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE")))
        if unread:
            mysql.run("INSERT INTO t VALUES (2)")
        mysql.run("FLUSH BINARY LOGS")
        mysql.run(f"PURGE BINARY LOGS TO '{mysql.here().file}'", "INSERT INTO t VALUES (3)")
        with pytest.raises(BinlogPurged):
            sync.run()
    finally:
        mysql.run(*(f"SET GLOBAL gtid_mode = {mode}" for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")))


@pytest.mark.mysql
def test_purged_transactions_of_a_time_without_gtids_stop_the_run(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "SET timestamp = UNIX_TIMESTAMP() - 60", "FLUSH BINARY LOGS")
    mysql.run("SET timestamp = DEFAULT", "INSERT INTO t VALUES (1)")
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"])
    sync.run()
    try:
        mysql.run(*(f"SET GLOBAL gtid_mode = {mode}" for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE")))
        mysql.run("INSERT INTO t VALUES (2)")
    finally:
        mysql.run(*(f"SET GLOBAL gtid_mode = {mode}" for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")))
    mysql.run("FLUSH BINARY LOGS")
    mysql.run(f"PURGE BINARY LOGS TO '{mysql.here().file}'")
    with pytest.raises(BinlogPurged):
        sync.run()


@pytest.mark.mysql
def test_a_server_is_followed_in_every_gtid_mode_and_across_a_change(mysql: Playground, tmp_path: Path) -> None:
    """OFF is what a MySQL server has by itself."""
    modes = ["ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"]
    mysql.start_over()
    try:
        mysql.run(*(f"SET GLOBAL gtid_mode = {mode}" for mode in modes))
        table(mysql, 1, 2)
        sync = Sync(mysql, tmp_path, "t", ["table-name=t"])
        sync.run()
        mysql.run("INSERT INTO t (id) VALUES (3)")
        sync.run()
        assert sync.ids() == [1, 2, 3]
        mysql.run("INSERT INTO t (id) VALUES (4)")
        for mode in reversed(modes[:2]):
            mysql.run(f"SET GLOBAL gtid_mode = {mode}", "UPDATE t SET id = id + 10")
        # What is logged without GTID and was not read is refused by a server whose mode is ON.
        mysql.run("SET GLOBAL gtid_mode = ON")
        with pytest.raises(PositionLost, match="ON_PERMISSIVE"):
            sync.run()
        mysql.run("SET GLOBAL gtid_mode = ON_PERMISSIVE")
        sync.run()
        mysql.run("SET GLOBAL gtid_mode = ON", "UPDATE t SET id = id + 10")
        sync.run()
        assert sync.ids() == [31, 32, 33, 34]
        assert all(verdict.is_equal for verdict in sync.verified())
    finally:
        for mode in [*reversed(modes[:2]), "ON"]:
            if mysql.rows("SELECT @@GLOBAL.gtid_mode")[0][0] != "ON":
                mysql.run(f"SET GLOBAL gtid_mode = {mode}")
