"""What grows with the executors and what stays in the driver: Kafka to tables on executors of one core each.

    python -m benchmarks.executors EVENTS [EXECUTORS ...]        400000, 1 and 2

All executors are on this machine (`local-cluster`), so with more of them than cores only CPU can be compared.
The driver and its JVM plan, send tasks and commit, which no executor takes over; the CPU of all processes an event says
how many cores a million events a second take. The figures are those of the batches after the first. What else does not
scale is not measured here: the brokers, the network and the store.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.batch_costs import committed, events_until
from benchmarks.figures import Figure, record
from benchmarks.kafka_job import Work, command_of, load, make_topic, report
from benchmarks.processes import cost_of, used
from benchmarks.shop.stream import write
from tests.servers import launch

BATCHES = 4
MEMORY = 1024  # MiB of an executor
EXECUTOR = b"CoarseGrainedExecutorBackend"
MILLION = 1_000_000


@dataclass(slots=True)
class Shares:
    """Looks at a job: the CPU seconds of its driver and of its executors whenever a batch has been committed."""

    home: Path
    done: dict[int, tuple[float, float]] = field(default_factory=dict)  # by batches: driver, executors
    _used: dict[int, float] = field(default_factory=dict)
    _of_executor: dict[int, bool] = field(default_factory=dict)

    def look(self, session: int) -> None:
        for pid, seconds in used(session).items():
            with suppress(OSError):  # it may end while we look
                if not self._of_executor.get(pid):  # a process is a copy of its parent at first
                    self._of_executor[pid] = belongs_to_executor(pid, session)
                self._used[pid] = seconds
        batches = len(committed(self.home))
        if batches and batches not in self.done:
            shares = [0.0, 0.0]
            for pid, seconds in self._used.items():
                shares[self._of_executor[pid]] += seconds
            self.done[batches] = (shares[0], shares[1])

    def each(self) -> tuple[float, float]:
        """Return the microseconds of the driver and of the executors for an event after the first batch."""
        first, last = min(self.done), max(self.done)
        events = events_until(self.home, last) - events_until(self.home, first)
        driver, executors = (
            1e6 * (after - before) / events for before, after in zip(self.done[first], self.done[last], strict=True)
        )
        return driver, executors


def belongs_to_executor(pid: int, session: int) -> bool:
    """Return whether a process is an executor or was started by one."""
    while pid > 1 and pid != session:
        if EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes():
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def run(work: Work, home: Path, executors: int) -> None:
    shares = Shares(home)
    master = f"local-cluster[{executors},1,{MEMORY}]"
    command = [*command_of(work, home), "--master", master, "--parallelism", str(executors), "--until-caught-up"]
    cost = cost_of(command, home / "log", look=shares.look)
    print(report("ours", work, home, cost))
    driver, tasks = shares.each()
    cores = driver + tasks
    what = f"{executors} executors of one core" if executors > 1 else "1 executor of one core"
    print(f"{what}: driver {driver:.2f} us, executors {tasks:.2f} us an event after the first batch")
    print(f"  a million events a second take {cores:.1f} cores, {driver:.1f} of them for the driver and its JVM")
    record(Figure(f"{what}: CPU of executors after the first batch", tasks, "us an event", less=True))
    record(Figure(f"{what}: CPU of the driver after the first batch", driver, "us an event", less=True))
    record(Figure(f"{what}: cores for 1,000,000 events/s, by arithmetic", cores, "cores", goal=16.0, less=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=int, nargs="?", default=400_000)
    parser.add_argument("executors", type=int, nargs="*", default=[1, 2])
    given = parser.parse_args()
    options = ["bucket=4", "changelog-producer=none", "file.compression=zstd"]
    flags = [f"--max-batch-rows={given.events // BATCHES}", "--spark=always"]
    with tempfile.TemporaryDirectory() as name, launch.running("kafka", Path(name) / "broker") as port:
        paths = write(Path(name) / "messages", given.events)
        work = Work(f"127.0.0.1:{port}", Path(name) / "messages", given.events, options, flags)
        make_topic(work)
        load(work, paths)
        for executors in given.executors:
            home = Path(name) / f"executors-{executors}"
            home.mkdir()
            run(work, home, executors)


if __name__ == "__main__":
    main()
