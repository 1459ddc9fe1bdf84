"""Dead letters of rows whose table is read again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.pipelines.api.dead_letters import letters_of
from penstock.pipelines.api.replay_dead_letters import begun_of, finished, replay
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.rules import ExpectConfig
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from penstock.table.commit.committer import Committer
from tests.here import run
from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres
RULE = ExpectConfig(source_table="public.t", condition="n < 8", action="dead-letter", name="few")
LETTERS = "__penstock_dead_letters"


def spec_of(sync: PgSync) -> PipelineSpec:
    return sync.spec.model_copy(update={"expect": (RULE,)})


def counted(spec: PipelineSpec) -> dict[str, int]:
    """Run, and return how many rows were bad, or bad again."""
    found = Counter[str]()

    def note(_: Any, report: Any) -> None:
        found.update({"bad": report.bad_count, "again": report.passed_over["messages.bad.again"]})

    run(spec, on_batch=note)
    return dict(+found)


def test_a_row_that_is_read_again_has_one_dead_letter(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v text[], n int NOT NULL")
    server.run(
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT i, array_fill('a'::text, ARRAY[30]), i % 10 FROM generate_series(0, 29) i",
    )
    flags = ["--on-bad-record", "dead-letter", "--max-bad-share", "100%"]
    spec = spec_of(PgSync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=7"], flags=flags))
    letters = PgSync(server, tmp_path, LETTERS).target
    assert counted(spec) == {"bad": 6}
    server.run("INSERT INTO t VALUES (30, '{b}', 9), (31, '{b}', 3)", "UPDATE t SET n = 8 WHERE id = 1")
    assert counted(spec) == {"bad": 2}
    folder = CheckpointFolder(spec.checkpoint)
    for number in range(2):
        folder.signal(f"{SNAPSHOT_REQUEST}{number}.json", ("public.t",))
        assert counted(spec) == {"again": 8}
        assert letters().scan().to_arrow().num_rows == 8
    letters().delete("source_position is not null")
    folder.signal(f"{SNAPSHOT_REQUEST}9.json", ("public.t",))
    assert counted(spec) == {"bad": 8}


@pytest.mark.parametrize("dies", ["ods.t", f"ods.{LETTERS}"])
def test_a_repeated_batch_counts_its_bad_rows_once(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    server.create("t", "id int PRIMARY KEY, n int NOT NULL")
    server.run("INSERT INTO t SELECT i, i FROM generate_series(0, 9) i")
    spec = spec_of(PgSync(server, tmp_path, flags=["--on-bad-record", "dead-letter", "--max-bad-share", "100%"]))
    commit = Committer.commit

    def dying(self: Committer, *given: Any, **named: Any) -> Any:
        if self.store.name == dies:
            raise PenstockError("died between two tables")
        return commit(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", dying)
        with pytest.raises(PenstockError, match="died"):
            run(spec)
    assert counted(spec) == {"bad": 2}
    assert PgSync(server, tmp_path, LETTERS).target().scan().to_arrow().num_rows == 2
    # A row that is bad with other values has no letter of these yet.
    server.run("UPDATE t SET n = 17 WHERE id = 9")
    assert counted(spec) == {"bad": 1}
    CheckpointFolder(spec.checkpoint).signal(f"{SNAPSHOT_REQUEST}1.json", ("public.t",))
    assert counted(spec) == {"again": 2}
    assert PgSync(server, tmp_path, LETTERS).target().scan().to_arrow().num_rows == 3


@pytest.mark.parametrize("again", [{"resnapshot": True}, {"reset": ("ods.t",)}])
def test_no_table_is_emptied_before_an_interrupted_replay_is_finished(
    server: PgPlayground, tmp_path: Path, again: dict[str, Any]
) -> None:
    """The replay takes its rows as present in the table, and would delete their letters."""
    server.create("t", "id int PRIMARY KEY, n int NOT NULL")
    server.run("INSERT INTO t SELECT i, i FROM generate_series(0, 9) i")
    sync = PgSync(server, tmp_path, flags=["--on-bad-record", "dead-letter", "--max-bad-share", "100%"])
    letters = PgSync(server, tmp_path, LETTERS).target
    spec = spec_of(sync)
    assert counted(spec) == {"bad": 2}
    replay(sync.spec, letters_of(letters().scan().to_arrow()), letters())
    emptied = spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update=again)})
    with pytest.raises(CheckpointMismatch, match=r"penstock dlq .* replay"):
        run(emptied)
    assert len(sync.rows("t")) == 10
    finished(sync.spec, letters())
    assert begun_of(sync.spec) is None
    assert counted(emptied) == {"bad": 2}
    replay(sync.spec, letters_of(letters().scan().to_arrow()), letters())
    assert len(sync.rows("t")) == 10
