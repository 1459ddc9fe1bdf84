"""A pipeline that runs for long under a mixed load, while its workers are killed: nothing that it holds may grow.

PENSTOCK_SOAK_MINUTES=N sets how long (one minute by default), PENSTOCK_SOAK_KILL_SECONDS=S how often a worker is
killed, and PENSTOCK_SOAK_LOG=FILE keeps the samples, a line of JSON each. `make soak MINUTES=60` runs it alone.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.ingest import joined_ranges
from penstock.table.meta import entry_cache
from tests.chaos.bank import Bank, end, python_workers
from tests.chaos.driver import session_of
from tests.integration.kafka.conftest import Broker
from tests.shop import Shop, insert
from tests.without_spark import run_here

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(200_000)]

MINUTES = float(os.environ.get("PENSTOCK_SOAK_MINUTES", "1"))
KILL_SECONDS = float(os.environ.get("PENSTOCK_SOAK_KILL_SECONDS", "20" if MINUTES < 10 else "300"))
LOG = os.environ.get("PENSTOCK_SOAK_LOG")
EVENTS = 60  # per second of the load
# The JVM's heap grows towards its limit in the first minutes; only later growth is a leak. A short run cannot
# distinguish the two, so it allows what a heap may still take.
GROWTH = 1.02 if MINUTES >= 60 else 1.2 if MINUTES >= 10 else 2.0
LEAST_SAMPLES = 15
MOST = {"rss": GROWTH, "handles": 1.5, "threads": 1.5}
# Expiry begins when a table has its greatest number of snapshots, which a short run does not reach: it compares the
# files of a commit, as the number of commits depends on how fast the machine is in each part of the run.
MOST |= {"files": 1.5, "snapshots": 1.5} if MINUTES >= 10 else {"files_of_a_commit": 1.5}


@dataclass(frozen=True, slots=True)
class Sample:
    """What the driver, its workers and the warehouse use: bytes of memory, open files, threads, snapshots and files."""

    seconds: float
    rss: int
    handles: int
    threads: int
    files: int
    snapshots: int
    commits: int

    @property
    def files_of_a_commit(self) -> float:
        return self.files / max(1, self.commits)


def sample(leader: int, warehouse: Path, began: float) -> Sample:
    rss = handles = threads = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and session_of(int(entry.name)) == leader:
                rss += int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                handles += len(list((entry / "fd").iterdir()))
                threads += len(list((entry / "task").iterdir()))
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            continue
    files = [path for path in warehouse.rglob("*") if path.is_file()]
    newest, snapshots = dict[Path, int](), 0
    for path in files:
        if path.name.startswith("snapshot-"):
            snapshots += 1
            newest[path.parent] = max(newest.get(path.parent, 0), int(path.name.removeprefix("snapshot-")))
    return Sample(time.monotonic() - began, rss, handles, threads, len(files), snapshots, sum(newest.values()))


def test_memory_does_not_grow_in_a_long_run_with_killed_workers(broker: Broker, tmp_path: Path) -> None:
    bank = Bank(broker, tmp_path)
    bank.send(300)
    # Without this option, nobody merges the small files of the table without a key.
    driver, samples, killed = bank.start("none", 1, "--compaction", "background"), [], 0
    try:
        bank.wait_until(lambda: bank.has_snapshot(1) or driver.poll() is not None)
        began = last_kill = time.monotonic()
        # On a slow machine a turn takes long, and the parts of a run are compared by their samples.
        while time.monotonic() - began < MINUTES * 60 or len(samples) < LEAST_SAMPLES:
            bank.send(EVENTS)
            time.sleep(1)
            assert driver.poll() is None, bank.log()
            if time.monotonic() - last_kill > KILL_SECONDS:
                bank.wait_until(lambda: python_workers(driver.pid) or driver.poll() is not None)
                for worker in python_workers(driver.pid)[:1]:
                    with suppress(ProcessLookupError):  # it has ended meanwhile
                        os.kill(worker, signal.SIGKILL)
                        killed, last_kill = killed + 1, time.monotonic()
                bank.check_sound()
            samples.append(sample(driver.pid, tmp_path / "warehouse", began))
            if LOG:
                with Path(LOG).open("a") as file:
                    file.write(json.dumps({**asdict(samples[-1]), "killed": killed}) + "\n")
    finally:
        end(driver)
    # On a slow machine the load was more than the driver could process, and the rest takes as long as the run.
    assert bank.run(seconds=240 + MINUTES * 60) == 0, bank.log()
    bank.check_whole()
    assert killed or MINUTES * 60 <= KILL_SECONDS, "no worker was found that could be killed"
    for name, factor in MOST.items():
        before, after = (middle([getattr(item, name) for item in part]) for part in thirds(samples))
        assert after <= before * factor, f"{name} grew from {before:,.1f} to {after:,.1f}"


def thirds(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Return the second third and the last one: the first is the time in which caches fill."""
    third = len(samples) // 3
    assert third, "the run was too short to compare its parts"
    return samples[third : 2 * third], samples[-third:]


def middle(values: list[float]) -> float:
    """Return the median: one sample beside a garbage collection or a compaction says nothing."""
    return float(sorted(values)[len(values) // 2])


def test_the_objects_of_a_driver_without_spark_do_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it keeps of a batch for good is little, and a driver that runs for days commits millions."""
    # Caches are full when the first objects are counted. How many snapshots and manifests they keep depends on the
    # number of batches, not on the time that these take.
    number, began = 0, time.monotonic()  # manifests of other tests, which may still be cached, are older
    monkeypatch.setattr(entry_cache, "time", SimpleNamespace(monotonic=lambda: began + number))
    monkeypatch.setattr(entry_cache, "KEPT_SECONDS", 20)
    monkeypatch.setattr(joined_ranges, "PLACES_KEPT", 20)
    options = {"bucket": "2", "snapshot.num-retained.min": "5", "snapshot.time-retained": "1ms"}
    shop, objects = Shop(tmp_path), dict[int, int]()

    def put() -> None:
        shop.put(f"{number:05}.json", *[insert(f"t{table}", {"id": number % 100}) for table in range(3)])
        (shop.inbox / f"{number - 20:05}.json").unlink(missing_ok=True)

    def taken(*_: object) -> None:
        nonlocal number
        number += 1
        put()
        if number % 5 == 0 and number > 280:
            gc.collect()
            objects[number] = len(gc.get_objects())

    put()
    spec = shop.spec(pipeline={"until": "forever", "trigger": "10ms"}, sink={"table-options": options})
    run_here(spec, taken, most=500)
    # Manifests are merged again and again: the least number of objects is that after a merge.
    first = min(count for batch, count in objects.items() if batch <= 360)
    last = min(count for batch, count in objects.items() if batch > 420)
    assert last - first < 100, f"an object of each batch is kept: {objects}"
