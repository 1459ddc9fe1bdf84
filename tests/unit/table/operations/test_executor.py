"""Units of work: dealt by size, run in processes, with their errors and their dead."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from penstock.errors import ConfigError
from penstock.table.errors import WorkerEnded
from penstock.table.operations.executor import BYTES_WORTH_A_PROCESS, OwnProcess, ProcessPool, dealt


@dataclass(frozen=True)
class Number:
    value: int
    size: int = 1


def doubled_in(unit: Number) -> tuple[int, int]:
    return os.getpid(), unit.value * 2


@dataclass(frozen=True)
class Fails:
    at: int

    def __call__(self, unit: Number) -> int:
        if unit.value == self.at:
            raise ConfigError("no such thing", table="shop.orders", hint="mend it")
        time.sleep(0.02)
        return unit.value


def dies(unit: Number) -> int:
    """The process that gets unit 0 is killed, as by a machine that runs out of memory."""
    if unit.value == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return unit.value


def numbers(count: int, size: int = 1) -> list[Number]:
    return [Number(value, size) for value in range(count)]


def values(found: Sequence[tuple[int, int]]) -> list[int]:
    return sorted(value for _, value in found)


def test_units_are_dealt_by_size_to_at_most_so_many_groups() -> None:
    sizes = (9, 1, 1, 1, 6, 3, 3)
    groups = dealt([Number(place, size) for place, size in enumerate(sizes)], 3)
    assert sorted(sum(unit.size for unit in group) for group in groups) == [7, 8, 9]
    assert sorted(unit.value for group in groups for unit in group) == list(range(7))
    assert [len(group) for group in dealt(numbers(4, size=0), 2)] == [2, 2]
    assert dealt([], 3) == []


def test_small_work_stays_in_this_process() -> None:
    for executor in (OwnProcess(), ProcessPool(), ProcessPool(4), ProcessPool(1, 0)):
        found = list(executor.run(doubled_in, numbers(3)))
        assert values(found) == [0, 2, 4]
        assert {process for process, _ in found} == {os.getpid()}


@pytest.mark.slow
def test_units_run_in_other_processes_that_end_afterwards() -> None:
    for executor in (ProcessPool(2, 0), ProcessPool()):
        found = list(executor.run(doubled_in, numbers(6, BYTES_WORTH_A_PROCESS)))
        processes = {process for process, _ in found}
        assert values(found) == [0, 2, 4, 6, 8, 10]
        assert os.getpid() not in processes
        assert len(processes) <= max(2, os.cpu_count() or 1)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_an_error_comes_with_its_facts_after_the_results_of_units_that_ended() -> None:
    came: list[int] = []
    with pytest.raises(ConfigError) as raised:
        came.extend(ProcessPool(2, 0).run(Fails(at=1), numbers(40)))
    assert raised.value.facts == {"table": "shop.orders"}
    assert raised.value.hint == "mend it"
    assert 1 not in came
    assert len(came) < 39  # units that had not begun were given up


@pytest.mark.slow
def test_a_killed_process_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(WorkerEnded, match="was killed") as raised:
        list(ProcessPool(2, 0).run(dies, numbers(4)))
    assert "--parallelism" in (raised.value.hint or "")
    assert multiprocessing.active_children() == []
