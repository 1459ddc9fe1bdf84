"""Dead letters of rows whose table is read again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from penstock.pipelines.config.rules import ExpectConfig
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from tests.here import run
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

RULE = ExpectConfig(source_table="play.t", condition="n < 8", action="dead-letter", name="few")


def test_a_row_that_is_read_again_has_one_dead_letter(server: Playground, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, s SET('a', 'b'), y BINARY(3), d DATETIME(3), n DECIMAL(9, 2) NOT NULL)",
        "INSERT INTO t VALUES (1, 'a,b', 'x', '2026-01-02 03:04:05.678', 1), (2, NULL, 'y', NULL, 9)",
    )
    flags = ["--on-bad-record", "dead-letter", "--max-bad-share", "100%"]
    sync, found = Sync(server, tmp_path, flags=flags), Counter[str]()
    spec = sync.spec.model_copy(update={"expect": (RULE,)})

    def note(_: Any, report: Any) -> None:
        found.update({"bad": report.bad_count, "again": report.passed_over["messages.bad.again"]})

    run(spec, on_batch=note)
    server.run("INSERT INTO t VALUES (3, 'b', 'z', '2026-01-02 03:04:05', 10), (4, '', '', NULL, 2)")
    server.run("UPDATE t SET n = 11 WHERE id = 1")
    run(spec, on_batch=note)
    assert +found == {"bad": 3}
    CheckpointFolder(spec.checkpoint).signal(f"{SNAPSHOT_REQUEST}1.json", ("play.t",))
    server.run("INSERT INTO t VALUES (5, NULL, '', NULL, 2)")
    run(spec, on_batch=note)
    assert +found == {"bad": 3, "again": 3}
    assert sync.target("__penstock_dead_letters").scan().to_arrow().num_rows == 3
    assert sync.ids("t") == [1, 4, 5]
