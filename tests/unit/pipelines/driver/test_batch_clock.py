"""The seconds of a batch while the clock of the machine is set."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.pipelines.driver.batch_clock import BatchClock

NOON = 1_790_000_000_000


@dataclass
class Machine:
    """A driver's process: the seconds since its start, and what the clock of the machine shows then."""

    seconds: float = 0.0
    is_ahead: int = 0  # in seconds
    clock: BatchClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = BatchClock(lambda: self.seconds)

    @property
    def millis(self) -> int:
        return NOON + round((self.seconds + self.is_ahead) * 1000)

    def batch(self, waits: float, starts: float, works: float, set_while: str = "", by: int = 0) -> tuple[float, float]:
        """Return the seconds that a batch was planned for, and all of it. Nothing is planned while the driver waits."""
        self.seconds += waits
        planned = self.millis
        self.is_ahead += by * (set_while == "starts")
        self.seconds += starts
        self.clock.start(self.millis)
        self.is_ahead += by * (set_while == "works")
        self.seconds += works
        return self.clock.planning(planned), self.clock.done(planned)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_time_of_a_batch_is_from_its_plan_to_its_end(machine: Machine) -> None:
    assert machine.batch(30, 0.5, 2) == (0.5, 2.5)
    assert machine.batch(0, 1, 2) == (1, 3)


@pytest.mark.parametrize("by", [7200, -7200])
def test_a_clock_that_is_set_while_a_batch_is_written_changes_nothing(machine: Machine, by: int) -> None:
    machine.batch(0, 1, 1)
    assert machine.batch(30, 0.5, 2, "works", by) == (0.5, 2.5)
    assert machine.batch(30, 0.5, 2) == (0.5, 2.5)


@pytest.mark.parametrize(("by", "planning"), [(7200, 4.5), (-7200, 0.0)])
def test_a_wait_for_tasks_is_no_longer_than_since_the_batch_before(machine: Machine, by: int, planning: float) -> None:
    machine.batch(0, 1, 1)
    assert machine.batch(4, 0.5, 2, "starts", by) == (planning, planning + 2)


def test_the_time_of_a_batch_of_an_earlier_run_is_from_the_beginning_of_this_one(machine: Machine) -> None:
    machine.seconds = 3
    machine.clock.start(machine.millis)
    machine.seconds = 5
    assert machine.clock.done(NOON - 3_600_000) == 5


def test_without_an_instant_of_the_planner_only_the_work_counts(machine: Machine) -> None:
    machine.seconds = 3
    machine.clock.start(machine.millis)
    machine.seconds = 5
    assert (machine.clock.planning(0), machine.clock.done(0)) == (0, 2)
