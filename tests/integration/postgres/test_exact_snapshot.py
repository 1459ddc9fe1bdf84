"""Target tables in which a change that comes twice would show, while the source is written and the pipeline crashes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.formats.change import ChangeBatch
from penstock.ingest.postgres.snapshot.chunks import KeyChunk
from penstock.ingest.postgres.table_as_of import SlotLog, chunk_as_of
from penstock.ingest.source import PastUnknown
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.postgres.test_while_written import ROWS, TURNS, Writer

pytestmark = pytest.mark.postgres
SMALL_CHUNKS = "scan.incremental.snapshot.chunk.size=400"


class _CrashError(Exception):
    pass


def written(server: PgPlayground, table: str = "w", *, full: bool = True) -> None:
    server.create(table, "id int PRIMARY KEY, n int, big text")
    server.run(f"INSERT INTO {table} SELECT i, i, 'b' FROM generate_series(1, {ROWS}) i")
    if full:
        server.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL")


def run_with_crashes(sync: PgSync, runs: int, seed: int, writer: Writer) -> None:
    crashes = random.Random(seed)

    def crash(_identity: BatchIdentity, _report: object) -> None:
        writer.turns.release(TURNS)
        if crashes.random() < 0.3:
            raise _CrashError

    for _ in range(runs):
        try:
            sync.run(crash)
        except _CrashError:
            continue


def sums(sync: PgSync, table: str) -> dict[int, int]:
    return {row["id"]: row["n"] for row in sync.rows(table).values() if row["n"]}


def source_sums(server: PgPlayground, table: str) -> dict[int, int]:
    lines = server.run(f"SELECT id, n FROM {table} WHERE n <> 0").splitlines()
    return {int(key): int(n) for key, n in (line.split("|") for line in lines)}


@pytest.mark.slow
def test_sums_are_right_though_the_source_is_written_during_the_snapshot(server: PgPlayground, tmp_path: Path) -> None:
    written(server)
    options = ["merge-engine=aggregation", "fields.n.aggregate-function=sum", "bucket=1"]
    options.append("fields.big.ignore-retract=true")
    sync = PgSync(server, tmp_path, conf=[SMALL_CHUNKS])
    sync.flags = ["--max-batch-rows", "800", *(word for option in options for word in ("--table-conf", option))]
    writer = Writer(server, 1)
    writer.start()
    try:
        run_with_crashes(sync, 6, 5, writer)
        # A table that appears later is read as of a later position.
        written(server, "later")
        server.run("UPDATE later SET n = n + 1 WHERE id <= 10")
        run_with_crashes(sync, 4, 6, writer)
    finally:
        writer.end()
    server.run("UPDATE later SET n = n + 1 WHERE id <= 20", "DELETE FROM later WHERE id > 1990")
    sync.run()
    assert sums(sync, "w") == source_sums(server, "w")
    assert sums(sync, "later") == source_sums(server, "later")


@pytest.mark.slow
def test_a_table_may_be_reset_while_others_are_copied_as_of_a_position(server: PgPlayground, tmp_path: Path) -> None:
    """The log waits for the others, so that the table is read as of the same position."""
    written(server)
    written(server, "z")
    options = ["merge-engine=aggregation", "fields.n.aggregate-function=sum", "bucket=1"]
    options.append("fields.big.ignore-retract=true")
    sync = PgSync(server, tmp_path, conf=[SMALL_CHUNKS])
    sync.flags = ["--max-batch-rows", "800", *(word for option in options for word in ("--table-conf", option))]

    def crash(*_: object) -> None:
        server.run("UPDATE w SET n = n + 1 WHERE id % 7 = 0", "UPDATE z SET n = n + 1 WHERE id % 5 = 0")
        raise _CrashError

    for _ in range(2):
        with pytest.raises(_CrashError):
            sync.run(crash)
    reset = replace(sync, flags=[*sync.flags, "--reset", "ods.w"])
    with pytest.raises(_CrashError):
        reset.run(crash)
    server.run("DELETE FROM w WHERE id % 11 = 0", "UPDATE z SET n = n + 1 WHERE id % 3 = 0")
    sync.run()
    assert sums(sync, "w") == source_sums(server, "w")
    assert sums(sync, "z") == source_sums(server, "z")


def test_changelog_has_every_row_of_the_snapshot_once(server: PgPlayground, tmp_path: Path) -> None:
    written(server)
    sync = PgSync(server, tmp_path, "w", ["table-name=w", SMALL_CHUNKS])
    sync.flags = ["--max-batch-rows", "400", "--table-conf", "changelog-producer=input", "--table-conf", "bucket=1"]
    batches = 0

    def change(_identity: BatchIdentity, _report: object) -> None:
        nonlocal batches
        batches += 1
        if batches == 1:  # some rows are read by now, most are not
            server.run(
                "UPDATE w SET n = -1 WHERE id IN (5, 1500)",
                "DELETE FROM w WHERE id IN (6, 1600)",
                "INSERT INTO w VALUES (5000, 1, 'new')",
            )

    sync.run(change)
    sync.run()
    table = sync.target()
    kinds: Counter[tuple[int, str]] = Counter()
    for row in table.changes(0, table.store.snapshots.latest_id() or 0).to_pylist():
        kinds[row["id"], row["rowkind"]] += 1
    assert set(kinds.values()) == {1}
    assert {(number, kind) for number, kind in kinds if kind != "+I"} == {
        *((5, kind) for kind in ("-U", "+U")),
        *((1500, kind) for kind in ("-U", "+U")),
        *((6, "-D"), (1600, "-D")),
    }
    assert len(kinds) == ROWS + 1 + 6


def test_changes_without_their_old_rows_stop_the_snapshot(server: PgPlayground, tmp_path: Path) -> None:
    written(server, full=False)
    sync = PgSync(server, tmp_path, "w", ["table-name=w", SMALL_CHUNKS])
    sync.flags = ["--max-batch-rows", "400", "--table-conf", "changelog-producer=lookup", "--table-conf", "bucket=1"]

    def change(_identity: BatchIdentity, _report: object) -> None:
        server.run("UPDATE w SET n = -1 WHERE id = 1900")

    with pytest.raises(PastUnknown, match="lacks what they were before") as caught:
        sync.run(change)
    assert "--resnapshot" in (caught.value.hint or "")
    server.run("ALTER TABLE w REPLICA IDENTITY FULL")
    sync.flags = [*sync.flags, "--resnapshot"]
    sync.run()
    assert sync.rows()[1900]["n"] == -1
    assert len(sync.rows()) == ROWS


@pytest.mark.parametrize("follows", [True, False])
def test_a_table_that_is_emptied_while_it_is_read(
    server: PgPlayground, tmp_path: Path, follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(server)
    sync = PgSync(server, tmp_path, "w", ["table-name=w", SMALL_CHUNKS])
    flags = ["--max-batch-rows", "400", "--table-conf", "changelog-producer=lookup", "--table-conf", "bucket=1"]
    sync.flags = [*flags, *(["--on-truncate", "delete-all"] if follows else [])]
    read = chunk_as_of

    def emptied(log: SlotLog, chunk: KeyChunk, at: int, oddities: Counter[str]) -> Iterator[ChangeBatch]:
        if chunk.number == 2 and server.run("SELECT count(*) FROM w") != "1":
            server.run("TRUNCATE w", "INSERT INTO w VALUES (7, 7)")
        return read(log, chunk, at, oddities)

    monkeypatch.setattr("penstock.ingest.postgres.read_range.chunk_as_of", emptied)
    if follows:
        sync.run()
        sync.run()
        assert {key: row["n"] for key, row in sync.rows().items()} == {7: 7}
    else:
        with pytest.raises(PastUnknown, match="emptied by TRUNCATE"):
            sync.run()
