"""Snapshot and log while the source is written, with crashes between: every change once, none missing."""

from __future__ import annotations

import random
import subprocess
import threading
from pathlib import Path

import pytest

from penstock.pipelines.ledger.batch_identity import BatchIdentity
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ROWS = 2000
TURNS = 30  # transactions of a writer for each batch


class Writer(threading.Thread):
    """A session that changes random rows beside each batch, some of it in transactions that are rolled back.

    A session that wrote all the time would be ahead of the pipeline for minutes on a slow machine.
    """

    def __init__(self, server: PgPlayground, seed: int) -> None:
        super().__init__()
        self.server, self.random = server, random.Random(seed)
        self.stopped, self.turns = threading.Event(), threading.Semaphore(TURNS)

    def end(self) -> None:
        self.stopped.set()
        self.turns.release()
        self.join()

    def run(self) -> None:
        address = ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", "postgres", "-d", DATABASE]
        with subprocess.Popen(["psql", "-Xq", *address], stdin=subprocess.PIPE, text=True) as session:
            assert session.stdin is not None
            while self.turns.acquire() and not self.stopped.wait(0.002):
                session.stdin.write(self._transaction())
                session.stdin.flush()
            session.stdin.write("\\q\n")

    def _transaction(self) -> str:
        ends = "COMMIT" if self.random.random() < 0.8 else "ROLLBACK"
        return "BEGIN;\n" + "".join(self._statement() for _ in range(self.random.randint(1, 5))) + f"{ends};\n"

    def _statement(self) -> str:
        row, other = self.random.randint(1, ROWS), self.random.randint(1, ROWS * 2)
        return self.random.choice(
            [
                f"UPDATE w SET n = n + 1 WHERE id = {row};\n",
                f"UPDATE w SET big = repeat('{other} ', 1000) WHERE id = {row};\n",
                f"DELETE FROM w WHERE id = {row};\n",
                f"INSERT INTO w VALUES ({other}, 0, repeat('x', {other})) ON CONFLICT DO NOTHING;\n",
                f"UPDATE w SET id = {other} WHERE id = {row} AND NOT EXISTS (SELECT FROM w WHERE id = {other});\n",
            ]
        )


class _CrashError(Exception):
    pass


def sums(sync: PgSync) -> tuple[int, ...]:
    rows = sync.rows("w")
    return (
        len(rows),
        sum(rows),
        sum(row["n"] for row in rows.values()),
        sum(len(row["big"]) * row["id"] for row in rows.values()),
    )


def test_nothing_is_lost_or_repeated_between_snapshot_and_log(server: PgPlayground, tmp_path: Path) -> None:
    server.create("w", "id int PRIMARY KEY, n int, big text")
    server.run(
        "ALTER TABLE w ALTER big SET STORAGE EXTERNAL",
        f"INSERT INTO w SELECT i, 0, repeat(i || ' ', 1000) FROM generate_series(1, {ROWS}) i",
    )
    sync = PgSync(
        server,
        tmp_path,
        "w",
        ["table-name=w", "scan.incremental.snapshot.chunk.size=100"],
        ["--max-batch-rows", "500"],
    )
    crashes = random.Random(3)

    writers = [Writer(server, seed) for seed in range(3)]

    def crash(_identity: BatchIdentity, _report: object) -> None:
        for writer in writers:
            writer.turns.release(TURNS)
        if crashes.random() < 0.3:
            raise _CrashError

    for writer in writers:
        writer.start()
    try:
        for _ in range(12):  # a crash between the commit and the checkpoint: the batch is planned and read again
            try:
                sync.run(crash)
            except _CrashError:
                continue
    finally:
        for writer in writers:
            writer.end()
    sync.run()
    wanted = server.run("SELECT count(*), sum(id), sum(n), sum(length(big)::bigint * id) FROM w")
    assert "|".join(map(str, sums(sync))) == wanted
