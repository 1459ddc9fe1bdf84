"""Executors run the units of an action: in this process, in a pool of processes, or in tasks of a cluster.

An action divides its work on the driver into units (a bucket, a group of files), lets an executor run the same function
on each, and commits the results at once. See docs/decisions/0021-actions-are-units-of-work.md.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_end
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from penstock.table.errors import WorkerEnded

# A process starts in about a second. Less input than this is done in the time that another process would need for that.
BYTES_WORTH_A_PROCESS = 64 << 20
# Threads only wait for the store, so their number does not depend on the cores.
STORE_REQUESTS = 8


class WorkUnit(Protocol):
    """A part of an action that can run in another process. It is pickled, and names its table and buckets."""

    @property
    def size(self) -> int:
        """Return the number of bytes to read. Large units begin first, so that no task is left with all of them."""
        ...


OfUnit = TypeVar("OfUnit", bound=WorkUnit)
Result = TypeVar("Result")
Work = Callable[[OfUnit], Result]


class Executor(Protocol):
    """Runs the units of actions."""

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        """Yield the result of each unit, in any order. `work` and results are pickled, unless this process runs them.

        When a unit fails, its error is raised after the results of all units that ended meanwhile: these have written
        files that the caller deletes. Results that a dead process or task never returned are orphan files.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """Runs units one after the other in this process, so memory holds one unit."""

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        """Yield the result of each unit."""
        return map(work, units)


@dataclass(frozen=True, slots=True)
class Threads:
    """Runs units in threads of this process, for work that only waits for a store: lists, copies and deletions."""

    parallelism: int = STORE_REQUESTS

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        """Yield the result of each unit as soon as it is there."""
        if min(self.parallelism, len(units)) <= 1:
            yield from map(work, units)
            return
        with ThreadPoolExecutor(self.parallelism) as pool:
            yield from _results({pool.submit(work, unit) for unit in largest_first(units)})


@dataclass(frozen=True, slots=True)
class ProcessPool:
    """Runs units in at most `parallelism` processes of this machine, so memory holds as many units.

    Without a number these are as many as there are cores. Fewer are started when a process would have less than
    `least_bytes` to read.
    """

    parallelism: int | None = None
    least_bytes: int = BYTES_WORTH_A_PROCESS

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        """Yield the result of each unit as soon as it is there."""
        processes = min(self._processes(units), len(units))
        if processes <= 1:
            yield from map(work, units)
            return
        # Not forked: threads of Arrow and of stores' clients do not survive a fork.
        context = multiprocessing.get_context("spawn")
        before = set(multiprocessing.active_children())
        with ProcessPoolExecutor(processes, context, _prepare) as pool:
            left = {pool.submit(work, unit) for unit in largest_first(units)}
            try:
                yield from _results(left)
            except BrokenProcessPool as reason:
                raise WorkerEnded(
                    "a process that worked for this action was killed",
                    processes=processes,
                    hint="if the machine ran out of memory, use a smaller --parallelism or write-buffer-size",
                ) from reason
            except BaseException:
                # The caller gave up or was interrupted: further results of the processes would not be used.
                for process in set(multiprocessing.active_children()) - before:
                    process.terminate()
                raise

    def _processes(self, units: Sequence[WorkUnit]) -> int:
        worth = sum(unit.size for unit in units) // self.least_bytes if self.least_bytes else len(units)
        return max(1, min(worth, self.parallelism or os.cpu_count() or 1))


def largest_first(units: Sequence[OfUnit]) -> list[OfUnit]:
    """Return the units by size, the largest first."""
    return sorted(units, key=lambda unit: unit.size, reverse=True)


def dealt(units: Sequence[OfUnit], most: int) -> list[list[OfUnit]]:
    """Return the units in at most `most` groups with about the same number of bytes."""
    groups: list[list[OfUnit]] = [[] for _ in range(min(most, len(units)))]
    sizes = [0] * len(groups)
    for unit in largest_first(units):
        # Units of size zero are spread too.
        place = min(range(len(groups)), key=lambda number: (sizes[number], len(groups[number])))
        groups[place].append(unit)
        sizes[place] += unit.size
    return groups


def _results(left: set[Future[Any]]) -> Iterator[Any]:
    failure: BaseException | None = None
    while left:
        ended, left = wait(left, return_when=FIRST_COMPLETED)
        for future in ended:
            error = None if future.cancelled() else future.exception()
            failure = failure or error
            if error is None and not future.cancelled():
                yield future.result()
        if failure is not None:
            # Units that have begun are awaited, because their files have to be deleted.
            left = {future for future in left if not future.cancel()}
    if failure is not None:
        raise failure


def _prepare() -> None:
    """Prepare a process of the pool."""
    # Ctrl-C reaches every process of a terminal; the first process decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pa.set_cpu_count(1)  # the processes share the cores
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent was killed: the files that it writes would never be committed."""
    wait_for_end([parent])
    os._exit(1)
