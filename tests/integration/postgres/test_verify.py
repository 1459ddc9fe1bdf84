"""Target tables compared with their sources, as of the position of the pipeline, while the sources change."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.catalog import list_tables
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.slot import create_slot
from penstock.ingest.postgres.snapshot.chunks import cut_chunk, first_chunk
from penstock.ingest.postgres.table_as_of import SlotLog, chunk_as_of, table_as_of
from penstock.ingest.source import PastUnknown
from tests.integration.postgres.sync import DATABASE, SLOT, PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def wide(server: PgPlayground, name: str, *, full: bool) -> None:
    server.create(name, "id int PRIMARY KEY, n numeric(10,2), at timestamptz, big text")
    server.run(
        f"ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL",
        f"INSERT INTO {name} SELECT i, i + 0.25, '2026-01-01', repeat(md5(i::text), 99) FROM generate_series(1, 300) i",
    )
    if full:
        server.run(f"ALTER TABLE {name} REPLICA IDENTITY FULL")


def test_tables_equal_their_sources_at_the_position_of_the_pipeline(server: PgPlayground, tmp_path: Path) -> None:
    for name in ("logged", "inserted", "plain"):
        wide(server, name, full=name == "logged")
    sync = PgSync(server, tmp_path)
    sync.run()
    assert {name: (verdict.is_equal, verdict.source_rows) for name, verdict in sync.verified().items()} == {
        "logged": (True, 300),
        "inserted": (True, 300),
        "plain": (True, 300),
    }
    # The pipeline does not have these changes yet.
    server.run(
        "UPDATE logged SET n = -1 WHERE id <= 50",
        "UPDATE logged SET id = id + 1000 WHERE id BETWEEN 51 AND 60",
        "DELETE FROM logged WHERE id BETWEEN 61 AND 70",
        "INSERT INTO logged (id) SELECT * FROM generate_series(5000, 5100)",
        "UPDATE logged SET n = -2 WHERE id <= 10",
        "INSERT INTO inserted (id) SELECT * FROM generate_series(5000, 5100)",
        "UPDATE plain SET n = -1 WHERE id = 1",
    )
    found = sync.verified()
    assert (found["logged"].is_equal, found["logged"].source_rows) == (True, 300)
    assert (found["inserted"].is_equal, found["inserted"].source_rows) == (True, 300)
    assert "plain were updated or deleted" in (found["plain"].not_compared or "")
    sync.run()
    assert {verdict.is_equal for verdict in sync.verified().values()} == {True}
    assert server.run("SELECT count(*) FROM pg_replication_slots") == "1"


def test_rows_that_differ_are_named(server: PgPlayground, tmp_path: Path) -> None:
    wide(server, "t", full=True)
    sync = PgSync(server, tmp_path)
    sync.run()
    # Without the table in the publication, the log has none of its changes.
    server.run(
        "ALTER PUBLICATION play_slot_pub DROP TABLE t",
        "UPDATE t SET n = 7 WHERE id = 42",
        "DELETE FROM t WHERE id = 43",
        "ALTER PUBLICATION play_slot_pub ADD TABLE t",
    )
    sync.run()
    found = sync.verified()["t"]
    assert found.differs
    assert dict(found.counts) == {"changed": 1, "extra": 1}
    assert {difference.how: dict(difference.key) for difference in found.keys} == {
        "changed": {"id": 42},
        "extra": {"id": 43},
    }


def test_truncated_tables_are_not_compared(server: PgPlayground, tmp_path: Path) -> None:
    wide(server, "t", full=True)
    wide(server, "other", full=True)
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("TRUNCATE t")
    found = sync.verified()
    assert "TRUNCATE" in (found["t"].not_compared or "")
    assert found["other"].is_equal


def test_tables_that_are_being_read_are_compared_later(server: PgPlayground, tmp_path: Path) -> None:
    wide(server, "t", full=True)
    sync = PgSync(server, tmp_path, "t", ["table-name=t", "scan.incremental.snapshot.chunk.size=100"])
    sync.flags = ["--max-batch-rows", "100"]

    class _StopError(Exception):
        pass

    def stop(*_: object) -> None:
        # Batches before the first rows are empty if other transactions, as of autovacuum, moved the log meanwhile.
        if sync.tables() and sync.target().store.snapshots.latest() is not None:
            raise _StopError

    with pytest.raises(_StopError):
        sync.run(stop)
    with pytest.raises(SourceError, match="still being read"):
        sync.verified()


@pytest.mark.slow
def test_rows_of_an_earlier_position_stay_the_same_while_the_table_changes(server: PgPlayground) -> None:
    server.create("c", 'a int, b text COLLATE "C", n int, PRIMARY KEY (a, b)')
    server.run(
        "INSERT INTO c SELECT i / 10, i % 10, i FROM generate_series(0, 999) i",
        "ALTER TABLE c REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR TABLE c",
    )
    address = PgAddress("127.0.0.1", server.port, "cdc", "cdc", DATABASE)
    log = SlotLog(address, SLOT, "p", "or try again")
    with connected(address) as connection:
        at = create_slot(connection, SLOT, failover=False).confirmed
        whole = first_chunk(connection, list_tables(connection)[0])
        assert whole is not None
        chunks, rest = [], whole
        while rest is not None:
            chunk, rest = cut_chunk(connection, rest, 333)
            chunks.append(chunk)

    def content() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        def rows(batches: Iterable[ChangeBatch]) -> list[tuple[object, ...]]:
            return [tuple(row.values()) for batch in batches for row in batch.rows.to_pylist()]

        parts = (batch for chunk in chunks for batch in chunk_as_of(log, chunk, at, Counter()))
        return sorted(rows(table_as_of(log, whole, at, Counter()))), sorted(rows(parts))

    first = [(i // 10, str(i % 10), i) for i in range(1000)]
    assert content() == (first, first)
    stopped = threading.Event()
    statements = [
        "UPDATE c SET n = n + 1 WHERE a < 20",
        "DELETE FROM c WHERE a BETWEEN 40 AND 45",
        "UPDATE c SET a = a + 100 WHERE a BETWEEN 50 AND 52",
        "INSERT INTO c SELECT 30, 'x' || i, i FROM generate_series(1, 50) i",
        "BEGIN; DELETE FROM c; ROLLBACK",
        "INSERT INTO c SELECT 40, i % 10, -i FROM generate_series(0, 9) i",
        "UPDATE c SET b = b || 'y' WHERE a = 99",
    ]

    def write() -> None:
        number = 0
        while not stopped.wait(0.01):
            server.run(
                statements[number % len(statements)]
                if number < len(statements)
                else "UPDATE c SET n = n + 1 WHERE a = 7"
            )
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            assert content() == (first, first)
    finally:
        stopped.set()
        writer.join()
    assert content() == (first, first)
    server.run("TRUNCATE c")
    with pytest.raises(PastUnknown, match="TRUNCATE"):
        content()
