"""`penstock sql --engine spark --stream` under SIGKILL: no row of the source is lost, and none is written twice.

The driver is killed when rows are written and not committed, and when they are committed and the job does not know it
yet. At night on a standalone master with two workers, for each change in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from tests.chaos import cluster
from tests.chaos.driver import kill_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPTIONS = {"local.sync": "false"}
SCRIPT = """BEGIN STATEMENT SET;
INSERT INTO copies SELECT id, v FROM events;
INSERT INTO totals SELECT id % 10, v FROM events;
END"""
ROWS = 500


@dataclass
class Copy:
    """A job that copies a table of events into one without a key, and into one that adds up."""

    folder: Path
    master: str
    settings: Sequence[str]
    written: int = 0

    def __post_init__(self) -> None:
        self.catalog = Catalog(f"{self.folder}/warehouse", OPTIONS)
        self.catalog.create_database("shop")
        columns = [("id", "BIGINT"), ("v", "BIGINT")]
        self.catalog.create_table("shop.events", columns)
        self.catalog.create_table("shop.copies", columns)
        sums = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
        self.catalog.create_table("shop.totals", [("id", "BIGINT NOT NULL"), ("v", "BIGINT")], ["id"], options=sums)

    def add(self) -> None:
        numbers = pa.array(range(self.written, self.written + ROWS), pa.int64())
        with self.catalog.table("shop.events").writer() as writer:
            writer.write(pa.table({"id": numbers, "v": numbers}))
            writer.commit()
        self.written += ROWS

    @contextmanager
    def started(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start the job in a session of processes of its own, and kill what is left of it at the end."""
        flags = ["--warehouse", self.catalog.warehouse, "--catalog-conf", "local.sync=false", "--database", "shop"]
        conf = [word for setting in self.settings for word in ("--spark-conf", setting)]
        words = ["sql", SCRIPT, *flags, "--engine", "spark", "--stream", "--master", self.master, *conf, *more]
        command = [sys.executable, "-m", "penstock.pipelines.commands.main", *words]
        with (self.folder / "log").open("wb") as log:
            job = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ), start_new_session=True)
        try:
            yield job
        finally:
            if job.poll() is None:
                kill_session(job.pid)
            job.wait()

    def kill_when(self, table: str, pattern: str) -> None:
        """Start the job, add rows, and kill the job once the table has a new file of this pattern."""
        folder = Path(self.catalog.table(f"shop.{table}").path)
        with self.started() as job:
            before = set(folder.glob(pattern))
            while set(folder.glob(pattern)) <= before:
                assert job.poll() is None, self.log()
                time.sleep(0.005)
            kill_session(job.pid)
            assert job.wait() == -9

    def log(self) -> str:
        return (self.folder / "log").read_text()[-3000:]

    def rows(self, table: str) -> list[tuple[int, int]]:
        found = self.catalog.table(f"shop.{table}").scan().to_arrow()
        return list(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_a_killed_stream_of_sql_loses_and_repeats_no_row(tmp_path: Path, night: bool) -> None:
    if not night:
        _kill_and_continue(Copy(tmp_path, "local[2]", ()))
        return
    with cluster.running(tmp_path / "cluster") as spark:
        _kill_and_continue(Copy(tmp_path, spark.url, cluster.SETTINGS))


def _kill_and_continue(job: Copy) -> None:
    for table, pattern in (("copies", "bucket-0/*"), ("totals", "bucket-0/*"), ("copies", "snapshot/snapshot-*")):
        job.add()
        job.kill_when(table, pattern)
    job.add()
    with job.started("--until-caught-up") as last:
        assert last.wait(240) == 0, job.log()
    assert Counter(job.rows("copies")) == Counter((number, number) for number in range(job.written))
    assert dict(job.rows("totals")) == {digit: sum(range(digit, job.written, 10)) for digit in range(10)}
