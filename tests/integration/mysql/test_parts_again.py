"""`signal snapshot TABLE --where`: rows that meet a condition are read again, beside all that changes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.parts_beside_changes import CONDITIONS, ROWS, Change, expect_each_change_once, read_parts

SMALL_CHUNKS = ["scan.incremental.snapshot.chunk.size=40"]
ONE_BUCKET = ["--table_conf", "bucket=1"]


def ask_for(sync: Sync, where: str | None, *tables: str, number: int = 1) -> CheckpointFolder:
    folder = CheckpointFolder(sync.spec.checkpoint)
    folder.signal(f"{SNAPSHOT_REQUEST}{number}.json", tables or ("play.t",), where or "")
    return folder


def table(server: Playground, rows: int) -> None:
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_general_ci, n INT NOT NULL)",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, '{'aA'[n % 2]}', 0)" for n in range(rows)),
    )


def unlogged(server: Playground, *statements: str) -> None:
    server.run("SET SESSION sql_log_bin = 0", *statements, "SET SESSION sql_log_bin = 1")


def test_only_rows_that_meet_the_condition_are_read_again(server: Playground, tmp_path: Path) -> None:
    table(server, 100)
    sync = Sync(server, tmp_path, conf=SMALL_CHUNKS)
    sync.run()
    unlogged(server, "UPDATE t SET n = 7")
    # The server would take 'A' for 'a'.
    folder = ask_for(sync, "v = 'a' and id < 50", number=1)
    ask_for(sync, "length(v) = 1 and id in (91, 93)", "t", number=2)
    sync.run()
    assert [row["id"] for row in sync.rows("t") if row["n"] == 7] == [*range(0, 50, 2), 91, 93]
    server.run("INSERT INTO t VALUES (1000, 'a', 0)")
    sync.run()
    assert folder.signals().snapshots == ()
    assert 1000 in sync.ids("t")


def test_a_wrong_condition_is_reported_and_the_pipeline_continues(server: Playground, tmp_path: Path) -> None:
    table(server, 10)
    server.run("CREATE TABLE keyless (id INT)")
    sync = Sync(server, tmp_path, flags=["--include-keyless", "append"])
    sync.run()
    unlogged(server, "UPDATE t SET n = 7")
    for number, where in enumerate(["region = 'x'", "v + 1 > 2 and length(n, 2) = 1", "n"]):
        folder = ask_for(sync, where, number=number)
    ask_for(sync, "id = 1", "play.keyless", number=5)
    ask_for(sync, "id = 3", number=6)
    server.run("INSERT INTO t VALUES (20, 'a', 0)")
    sync.run()
    assert [row["id"] for row in sync.rows("t") if row["n"] == 7] == [3]
    assert sync.ids("t") == [*range(10), 20]
    position = folder.batches.progress().offsets
    assert position is not None
    refused = position["refused"]
    assert len(refused) == 4
    assert refused[0].startswith(
        "play.t where region = 'x': the condition does not fit the table: region is not a column"
    )
    assert "no primary key" in refused[3]


def test_a_part_gives_way_to_the_whole_table_and_follows_one_that_is_being_read(
    server: Playground, tmp_path: Path
) -> None:
    table(server, 100)
    server.run("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    sync = Sync(server, tmp_path, conf=SMALL_CHUNKS, flags=[*ONE_BUCKET, "--max-batch-rows", "40"])
    asked = False

    def ask(*_: object) -> None:
        # While the first snapshot of the table is being read: the part is read after it, and does not narrow it.
        nonlocal asked
        if not asked:
            asked = True
            ask_for(sync, "id < 10")

    sync.run(ask)
    assert sync.ids("t") == [*range(100)]
    unlogged(server, "UPDATE t SET n = 7")
    ask_for(sync, "id < 10", number=2)
    ask_for(sync, None, number=3)
    sync.run()
    assert {row["n"] for row in sync.rows("t")} == {7}
    assert sync.ids("u") == [1]


@contextmanager
def changes(server: Playground) -> Iterator[Change]:
    connection = server.connect(database="play")

    def change(ids: list[int], value: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE t SET n = n + 1, v = '{value}' WHERE id IN ({', '.join(map(str, ids))})")

    yield change
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(server, marks=getattr(pytest.mark, server)) for server in ("mysql", "mariadb")]
)
def test_each_change_is_one_version_while_parts_are_read(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    server: Playground = request.getfixturevalue(kind)
    server.start_over()
    table(server, ROWS)
    sync = Sync(
        server, tmp_path, conf=SMALL_CHUNKS, flags=[*ONE_BUCKET, "--deletes", "history", "--max-batch-rows", "80"]
    )
    sync.run()
    read_parts(partial(changes, server), lambda where, number: ask_for(sync, where, number=number), sync.run)
    sync.run()
    assert sync.verified()[0].is_equal
    expect_each_change_once(sync.rows("t"))
    checkpoint: dict[str, Any] = json.loads((Path(sync.spec.checkpoint) / "log.json").read_text())
    wheres = [chunk.get("where") for end in checkpoint[1] for chunk in end.get("batch", {}).get("chunks", ())]
    assert {*CONDITIONS, None} == set(wheres)
