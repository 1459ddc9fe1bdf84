"""`signal snapshot TABLE --where`: rows that meet a condition are read again, beside all that changes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from tests.integration.parts_beside_changes import ROWS, Change, expect_each_change_once, read_parts
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync

pytestmark = pytest.mark.postgres
SMALL_CHUNKS = ["scan.incremental.snapshot.chunk.size=40"]
ONE_BUCKET = ["--table_conf", "bucket=1"]


def ask_for(sync: PgSync, where: str, *tables: str, number: int = 1) -> None:
    folder = CheckpointFolder(sync.spec.checkpoint)
    folder.signal(f"{SNAPSHOT_REQUEST}{number}.json", tables or ("public.t",), where)


def table(server: PgPlayground, rows: int) -> None:
    server.create("t", "id int PRIMARY KEY, v text, n int NOT NULL")
    server.run(
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'A' END, 0 FROM generate_series(0, {rows - 1}) i",
    )


def last_end(sync: PgSync) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(sync.spec.checkpoint) / "log.json").read_text())[1][-1]
    return found


def test_only_rows_that_meet_the_condition_are_read_again(server: PgPlayground, tmp_path: Path) -> None:
    table(server, 100)
    sync = PgSync(server, tmp_path, conf=SMALL_CHUNKS)
    sync.run()
    # The rows of the table are lost, as after a restore of an older copy.
    sync.target("t").delete("id >= 0")
    ask_for(sync, "v = 'a' and id < 50", number=1)
    ask_for(sync, "length(v) = 1 and id in (91, 93)", "t", number=2)
    ask_for(sync, "region = 'x'", number=3)
    server.run("INSERT INTO t VALUES (1000, 'a', 0)")
    sync.run()
    assert sorted(sync.rows("t")) == [*range(0, 50, 2), 91, 93, 1000]
    [refused] = last_end(sync)["refused"]  # type: ignore[misc]  # offsets are JSON
    assert refused.startswith(
        "public.t where region = 'x': the condition does not fit the table: region is not a column"
    )
    assert not last_end(sync).keys() & {"parts", "rest", "rest_part"}


@contextmanager
def changes(server: PgPlayground) -> Iterator[Change]:
    address = f"host=127.0.0.1 port={server.port} user=postgres dbname={DATABASE}"
    with psycopg.connect(address, autocommit=True) as connection:
        update = "UPDATE t SET n = n + 1, v = %s WHERE id = ANY(%s)"
        yield lambda ids, value: connection.execute(update, (value, ids))


@pytest.mark.slow
def test_each_change_is_one_version_while_parts_are_read(server: PgPlayground, tmp_path: Path) -> None:
    table(server, ROWS)
    sync = PgSync(
        server, tmp_path, conf=SMALL_CHUNKS, flags=[*ONE_BUCKET, "--deletes", "history", "--max-batch-rows", "80"]
    )
    sync.run()
    read_parts(partial(changes, server), lambda where, number: ask_for(sync, where, number=number), sync.run)
    sync.run()
    assert sync.verified()["t"].is_equal
    expect_each_change_once(sync.target("t").scan().to_arrow().to_pylist())
