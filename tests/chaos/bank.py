"""A pipeline under attack: its topic, its tables, its drivers as processes of their own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.chaos.driver import kill_session, session_of
from tests.chaos.source import KEYED, Source
from tests.integration.kafka.conftest import Broker
from tests.invariants import check_invariants
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
TABLES = (*KEYED, "ledger")
KILLED = -9
LOOKUP = {"changelog-producer": "lookup"}  # its changelog, folded, must be the table
OPTIONS = {
    "num-sorted-run.compaction-trigger": "2",
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "4",
    "snapshot.time-retained": "1 ms",
    "snapshot.expire.limit": "50",
}


@dataclass
class Bank:
    broker: Broker
    folder: Path
    master: str = "local[2,4]"
    settings: Sequence[str] = ()
    spark: str = "always"  # or when-needed: its batches are small
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        self.source = Source(self.broker.topic(partitions=3), 3, random.Random(7))
        self.warehouse = CatalogSettings.of(f"{self.folder}/warehouse", {})
        catalog = Catalog(f"{self.folder}/warehouse")
        catalog.create_database("bank")
        columns = [("id", "BIGINT NOT NULL"), ("version", "BIGINT"), ("checksum", "BIGINT")]
        catalog.create_table("bank.accounts", columns, ["id"], options={"bucket": "2", **OPTIONS, **LOOKUP})

    def send(self, events: int) -> None:
        self.source.send(self.broker.properties, events)

    def command(self, *more: str) -> list[str]:
        kafka = {
            "topic": self.source.topic,
            "value.format": "canal-json",
            "scan.startup.mode": "earliest-offset",
            "properties.bootstrap.servers": self.broker.properties["bootstrap.servers"],
        }
        pairs = {"--kafka-conf": kafka, "--table-conf": OPTIONS}
        return [
            *("kafka-sync-database", "--warehouse", f"{self.folder}/warehouse", "--database", "bank"),
            *("--include-keyless", "append"),
            *("--name", "bank", "--checkpoint", f"{self.folder}/checkpoint", "--master", self.master),
            *("--max-batch-rows", "60", "--trigger", "100ms", "--spark", self.spark),
            *(word for flag, conf in pairs.items() for key, value in conf.items() for word in (flag, f"{key}={value}")),
            *(word for setting in self.settings for word in ("--spark-conf", setting)),
            *more,
        ]

    def start(self, point: str = "none", nth: int = 1, *more: str, **environment: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-W", "ignore", "-m", "tests.chaos.driver", point, str(nth), *self.command(*more)]
        log = (self.folder / "driver.log").open("ab")
        return subprocess.Popen(
            words, cwd=ROOT, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
        )

    def run(self, point: str = "none", nth: int = 1, seconds: float = 240) -> int:
        """Until it has caught up, or has come to its point; the exit code."""
        driver = self.start(point, nth, "--until-caught-up")
        try:
            return driver.wait(seconds)
        finally:
            end(driver)

    def kill_at(self, points: Iterable[str]) -> None:
        """A driver for each named point, which dies there in the middle of new events."""
        for point in points:
            if point != "none":
                self.send(120)
                assert self.run(point, 1 if "inside" in point else 2) == KILLED, f"{point}: {self.log()}"
                self.check_sound()

    def snapshots(self) -> set[Path]:
        return set((self.folder / "warehouse/bank.db").glob("*/snapshot/snapshot-*"))

    def kill_after(self, seconds: float, *more: str) -> int:
        """A driver that is killed so long after its first commit; the exit code.

        Counted from its start, a kill may always come while Spark starts, on a busy machine.
        """
        before = self.snapshots()
        driver = self.start("none", 1, *more)
        try:
            self.wait_until(lambda: self.snapshots() - before or driver.poll() is not None)
            return driver.wait(seconds)
        except subprocess.TimeoutExpired:
            kill_session(driver.pid)
            return driver.wait()
        finally:
            end(driver)

    def table(self, name: str) -> Table:
        return Table(self.warehouse.store(f"bank.{name}"))

    def tables(self) -> list[Table]:
        return [self.table(name.partition(".")[2]) for name in self.warehouse.tables("bank")]

    def check_sound(self) -> None:
        """At any moment: what is in the tables is something that the source has been."""
        assert [wrong for table in self.tables() for wrong in self.source.impossible(table)] == []

    def check_whole(self) -> None:
        """When all has been taken: nothing is lost, nothing doubled, and the tables keep their invariants."""
        assert {table.name for table in self.tables()} == {f"bank.{name}" for name in TABLES}
        assert [wrong for table in self.tables() for wrong in self.source.wrong(table)] == [], self.log()
        for table in self.tables():
            check_invariants(table)

    def log(self) -> str:
        return (self.folder / "driver.log").read_text(errors="replace")[-6000:]

    def wait_until(self, true: Callable[[], object], seconds: float = 240) -> None:
        until(true, self.log, seconds)

    def has_snapshot(self, number: int) -> bool:
        """Return whether a table with a key has come to this snapshot, which may have been expired since."""
        found = (path.name.removeprefix("snapshot-") for name in KEYED for path in self._snapshots_of(name))
        return any(int(reached) >= number for reached in found)

    def _snapshots_of(self, name: str) -> Iterator[Path]:
        return (self.folder / f"warehouse/bank.db/{name}/snapshot").glob("snapshot-*")


def end(driver: subprocess.Popen[bytes]) -> None:
    if driver.poll() is None:
        kill_session(driver.pid)
        driver.wait()


def python_workers(leader: int) -> list[int]:
    """The processes of a driver in which tasks run: children of the daemon that Spark forks them from."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or session_of(int(entry.name)) != leader:
                continue
            words = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"penstock.pipelines.spark.worker_daemon" in words or b"pyspark.daemon" in words:
                above = Path(f"/proc/{parent}/cmdline").read_bytes()
                if b"daemon" in above:
                    found.append(int(entry.name))
        except (ProcessLookupError, FileNotFoundError):
            continue
    return found
