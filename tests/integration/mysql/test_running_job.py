"""A job that runs under Spark: reports of the source snapshot, idle times, schema change tools, verify beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.pipelines.commands.main import main
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.table.catalog.catalog import Catalog
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from tests.integration.mysql.playground import DATABASE, Playground
from tests.waiting import until

pytestmark = [pytest.mark.mysql, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[3]
ROWS = 3000
PIPELINE = """
pipeline: {name: shop, trigger: 100ms, parallelism: 2, max-batch: {rows: 500}}
source:
  type: mysql
  hostname: 127.0.0.1
  port: PORT
  username: cdc
  password: cdc
  ssl: {mode: disabled, allow-public-key-retrieval: true}
  database-name: DATABASE
  snapshot: {chunk-rows: 250}
sink:
  catalog: {warehouse: WAREHOUSE}
  database: ods
observe: {progress: always}
"""


@dataclass
class Job:
    server: Playground
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def until(self, true: Callable[[], object], what: str) -> None:
        def is_so() -> object:
            assert self.process.poll() is None, self.log[-3000:]
            return true()

        until(is_so, lambda: f"{what}\n{self.log[-3000:]}")

    def table(self, name: str) -> Table:
        found = Catalog(f"{self.folder}/warehouse").table(f"ods.{name}")
        assert isinstance(found, Table)
        return found

    def rows(self, name: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self.table(name).scan().to_arrow().sort_by("id").to_pylist()
        except TableMissing:
            return []
        return found

    def holds(self, name: str) -> bool:
        """Return whether the table has the current rows of the server."""
        columns = [row[0] for row in self.server.rows(f"SHOW COLUMNS FROM {name}")]
        wanted = [dict(zip(columns, row, strict=True)) for row in self.server.rows(f"SELECT * FROM {name} ORDER BY id")]
        return [{column: row.get(column) for column in columns} for row in self.rows(name)] == wanted

    @property
    def log_file(self) -> str:
        """Return the position from which the job would resume."""
        offsets = CheckpointFolder(f"{self.folder}/checkpoint").batches.progress().offsets or {}
        return str(offsets.get("log", {}).get("file"))


@contextmanager
def started(mysql: Playground, folder: Path, pipeline: str = PIPELINE) -> Iterator[Job]:
    text = pipeline.replace("PORT", str(mysql.port)).replace("DATABASE", DATABASE)
    text = text.replace("WAREHOUSE", f"{folder}/warehouse").replace(
        "name: shop,", f"name: shop, checkpoint: {folder}/checkpoint,"
    )
    (folder / "shop.yaml").write_text(text)
    words = [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "run", f"{folder}/shop.yaml"]
    with (folder / "log").open("wb") as out:
        process = subprocess.Popen(words, cwd=ROOT, env=os.environ, stdout=out, stderr=out)
    try:
        yield Job(mysql, folder, process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def job(mysql: Playground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    mysql.start_over()
    mysql.run("SET cte_max_recursion_depth = 100000", "CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(20))")
    numbers = f"WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {ROWS})"
    mysql.run(f"INSERT INTO big {numbers} SELECT n, CONCAT('v', n) FROM s", "ANALYZE TABLE big")
    with started(mysql, tmp_path_factory.mktemp("running")) as found:
        found.until(lambda: len(found.rows("big")) == ROWS, "the first copy")
        yield found


def test_the_source_snapshot_logs_its_share_rate_and_time_left(job: Job) -> None:
    reports = re.findall(
        r"event=copying share=(\S+) rows=(\d+) expected=(\d+) rows_per_second=(\d+) seconds_left=(\d+)", job.log
    )
    assert f"event=copy_planned tables=1 rows={ROWS}" in job.log
    shares = [float(report[0]) for report in reports]
    assert len(shares) >= 4
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.5 < shares[-1] < 1
    for share, rows, expected, rate, left in reports:
        assert abs(float(share) - int(rows) / int(expected)) < 0.02
        assert int(left) * int(rate) == pytest.approx(int(expected) - int(rows), rel=0.1, abs=2 * int(rate))
    assert re.search(r"copying \d+%  about \d+ (s|min) left", job.log)
    assert not re.search(r"fresh \d+ d", job.log)  # since 1970: rows of a first copy have no time


def test_a_command_copies_a_part_of_a_table_again(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    server, file = job.server, f"{job.folder}/shop.yaml"
    server.run(
        "CREATE TABLE part (id INT PRIMARY KEY, region CHAR(2), n INT)",
        "INSERT INTO part VALUES (1, 'EU', 0), (2, 'US', 0), (3, 'eu', 0), (4, 'EU', 0)",
    )
    job.until(lambda: job.holds("part"), "the first copy of a new table")
    server.run("SET SESSION sql_log_bin = 0", "UPDATE part SET n = 7", "SET SESSION sql_log_bin = 1")

    def copies() -> dict[str, list[str]]:
        capsys.readouterr()
        assert main(["status", file, "--offline", "--json"]) == 0
        found: dict[str, list[str]] = json.loads(capsys.readouterr().out)["rereads"]
        return found

    signal = ["signal", file, "snapshot", f"{DATABASE}.part", "--where"]
    assert main([*signal, "regoin = 'EU'"]) == 0
    job.until(lambda: copies()["copy refused"], "the refusal of a wrong column")
    assert "regoin is not a column of it; its columns are id, region, n" in copies()["copy refused"][0]
    assert "event=signal_refused" in job.log
    assert main([*signal, "region = 'EU'"]) == 0
    job.until(lambda: [row["id"] for row in job.rows("part") if row["n"] == 7] == [1, 4], "the rows of the part")
    job.until(lambda: not any(copies().values()), "the end of the copy")


def test_an_idle_job_survives_rotation_and_purge_of_binlogs(job: Job) -> None:
    server = job.server
    server.run(
        "CREATE DATABASE IF NOT EXISTS elsewhere",
        "DROP TABLE IF EXISTS elsewhere.t",
        "CREATE TABLE elsewhere.t (id INT)",
    )
    for number in range(3):  # the place moves on with what is logged of others, or with the file alone
        server.run(*["INSERT INTO elsewhere.t VALUES (1)"][: number % 2], "FLUSH BINARY LOGS")
        file = server.here().file
        job.until(lambda file=file: job.log_file == file, f"the place in {file}")  # type: ignore[misc]
        server.run(f"PURGE BINARY LOGS TO '{file}'")
    # Too quick for the job to look in between: what is gone, it had read.
    server.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    server.run(f"PURGE BINARY LOGS TO '{server.here().file}'", "UPDATE big SET v = 'after' WHERE id = 1")
    job.until(lambda: job.rows("big")[0]["v"] == "after", "the row behind the purged log")


PT_OSC = [
    "CREATE TABLE `_{0}_new` LIKE {0}",
    "ALTER TABLE `_{0}_new` MODIFY v BIGINT, ADD COLUMN w VARCHAR(9)",
    "CREATE TRIGGER pt_osc_{0}_del AFTER DELETE ON {0} FOR EACH ROW DELETE IGNORE FROM `_{0}_new` WHERE id <=> OLD.id",
    "CREATE TRIGGER pt_osc_{0}_upd AFTER UPDATE ON {0} FOR EACH ROW"
    " REPLACE INTO `_{0}_new` (id, v) VALUES (NEW.id, NEW.v)",
    "CREATE TRIGGER pt_osc_{0}_ins AFTER INSERT ON {0} FOR EACH ROW"
    " REPLACE INTO `_{0}_new` (id, v) VALUES (NEW.id, NEW.v)",
    "COPY `_{0}_new`",
    "ANALYZE TABLE `_{0}_new`",
    "RENAME TABLE {0} TO `_{0}_old`, `_{0}_new` TO {0}",
    "DROP TABLE IF EXISTS `_{0}_old`",
    "DROP TRIGGER IF EXISTS pt_osc_{0}_del",
    "DROP TRIGGER IF EXISTS pt_osc_{0}_upd",
    "DROP TRIGGER IF EXISTS pt_osc_{0}_ins",
]
GH_OST = [
    "CREATE /* gh-ost */ TABLE `_{0}_ghc` (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64), value VARCHAR(255))",
    "CREATE /* gh-ost */ TABLE `_{0}_gho` LIKE {0}",
    "ALTER /* gh-ost */ TABLE `_{0}_gho` MODIFY v BIGINT, ADD COLUMN w VARCHAR(9)",
    "INSERT INTO `_{0}_ghc` (hint, value) VALUES ('heartbeat', NOW())",
    "STOP",  # it applies the log itself: here nothing comes while it copies
    "COPY `_{0}_gho`",
    "CREATE /* gh-ost */ TABLE `_{0}_del` (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT = 'ghost-cut-over-sentry'",
    "DROP TABLE `_{0}_del`",
    "RENAME /* gh-ost */ TABLE {0} TO `_{0}_del`, `_{0}_gho` TO {0}",
    "DROP TABLE IF EXISTS `_{0}_ghc`",
    "DROP TABLE IF EXISTS `_{0}_del`",
]


@pytest.mark.parametrize(("tool", "steps"), [("pt", PT_OSC), ("gh", GH_OST)])
def test_a_schema_change_tool_swaps_a_table_under_the_running_job(job: Job, tool: str, steps: list[str]) -> None:
    server, name, over = job.server, f"{tool}_table", threading.Event()
    server.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
    server.run(f"INSERT INTO {name} VALUES " + ", ".join(f"({n}, {n})" for n in range(400)))
    job.until(lambda: len(job.rows(name)) == 400, "the table as it was")
    writer = Playground("mysql", server.port)
    writer.run(f"USE {DATABASE}")

    def write() -> None:
        number = 1000
        while not over.wait(0.01):
            number += 1
            writer.run(
                f"INSERT INTO {name} (id, v) VALUES ({number}, {number})",
                f"UPDATE {name} SET v = v + 1 WHERE id % 37 = {number % 37}",
                f"DELETE FROM {name} WHERE id = {number - 700}",
            )

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for step in steps:
            match step.format(name).split():
                case ["STOP"]:
                    over.set()
                    thread.join()
                case ["COPY", copy]:
                    for first in range(0, 2000, 100):
                        server.run(
                            f"INSERT LOW_PRIORITY IGNORE INTO {copy} (id, v) SELECT id, v FROM {name}"
                            f" FORCE INDEX (PRIMARY) WHERE id >= {first} AND id < {first + 100} LOCK IN SHARE MODE"
                        )
                case _:
                    server.run(step.format(name))
    finally:
        over.set()
        thread.join()
    server.run(f"INSERT INTO {name} VALUES (5000, 5000000000, 'new')", f"UPDATE {name} SET w = 'set' WHERE id < 3")
    job.until(lambda: job.holds(name), "the table as it is")
    assert list((job.folder / "warehouse/ods.db").glob("_*")) == []
    assert str(job.table(name).schema.field("v").type) == "int64"


ZEROS = pa.array([0, 0], pa.int32())


def write_beside(table: Table, rows: pa.Table, kinds: list[int]) -> None:
    """Commit rows as another writer than the job, which does not write to the same buckets meanwhile."""

    def is_written() -> bool:
        try:
            with table.writer(commit_user="vandal") as vandal:
                vandal.write(rows, kinds)
                vandal.commit()
        except ForeignWriter:
            return False  # the job has committed to the bucket after this writer began
        return True

    until(is_written, "a commit of the other writer")


def test_verify_of_a_running_job_reports_different_ranges(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    server, words = job.server, ["verify", f"{job.folder}/shop.yaml"]
    server.run("CREATE TABLE checked (id INT PRIMARY KEY, v INT)")
    server.run("INSERT INTO checked VALUES " + ", ".join(f"({n}, {n})" for n in range(9000)))
    job.until(lambda: len(job.rows("checked")) == 9000, "the table as it was")
    writer, over = Playground("mysql", server.port), threading.Event()
    writer.run(f"USE {DATABASE}")

    turn = threading.Lock()

    def write() -> None:
        while not over.wait(0.05):  # on a slow machine, verify would read what comes meanwhile for minutes
            with turn:
                writer.run("UPDATE checked SET v = v + 1 WHERE id BETWEEN 8500 AND 8510")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert main([*words, "--tables", "ods.checked"]) == 0
        assert "equal    ods.checked: 9,000 rows at" in capsys.readouterr().out
        with turn:
            write_beside(job.table("checked"), pa.table({"id": pa.array([7, 4500], pa.int32()), "v": ZEROS}), [3, 0])
        assert main([*words, "--tables", "ods.checked", "--json"]) == 1
    finally:
        over.set()
        thread.join()
    [output] = json.loads(capsys.readouterr().out)["tables"]
    assert output["ranges"] == ["id from 0 to 4095", "id from 4096 to 8191"]
    assert [(item["how"], item["key"]["id"]) for item in output["keys"]] == [("missing", 7), ("changed", 4500)]


def test_barriers_wait_for_one_trigger_together(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    ddl = "ddl: {truncate: delete-all, rename-column: rename}"
    pipeline = PIPELINE.replace("  snapshot:", f"  {ddl}\n  snapshot:")
    with started(mysql, tmp_path, pipeline) as job:
        job.until(lambda: len(job.rows("t")) == 1, "the first copy")
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(240) == 0, job.log[-3000:]
    mysql.run("TRUNCATE t", "INSERT INTO t VALUES (2, 2)", "TRUNCATE t", "INSERT INTO t VALUES (3, 3)")
    mysql.run("ALTER TABLE t RENAME COLUMN v TO w", "INSERT INTO t VALUES (4, 4)")
    with started(mysql, tmp_path, pipeline.replace("trigger: 100ms", "trigger: 1h")) as job:
        # The first batch of a job is made at once. The six batches behind it would wait for an hour each.
        job.until(lambda: job.rows("t") == [{"id": 3, "w": 3}, {"id": 4, "w": 4}], "all changes")
