"""When the adapter plans the next batch: at the trigger's interval, and at once at a barrier."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.ingest.batch_pace import LONGEST_PAUSE, LONGEST_WAIT
from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.source import NO_LIMIT, Limit, Offsets
from penstock.ingest.spark_stream import ChangesStreamReader, changes_source


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Stream:
    """Each batch takes one second to plan; those numbered in `barriers` are barriers."""

    clock: Clock
    barriers: frozenset[int] = frozenset()
    limit: Limit = NO_LIMIT
    planned: list[float] = field(default_factory=list)
    quiet: int = 0  # so many looks find nothing
    looks: int = 0

    def initial_offsets(self) -> Offsets:
        return {"n": 0}

    def available(self) -> Offsets:
        return {"n": 9}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        self.looks += 1
        if self.looks <= self.quiet:
            return start
        self.planned.append(self.clock.now)
        self.clock.now += 1
        return {"n": start["n"] + 1}

    def at_barrier(self) -> bool:
        return len(self.planned) in self.barriers

    def inputs(self, start: Offsets, end: Offsets) -> list[Any]:
        return []

    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


def planned(stream: Stream, interval: float, batches: int, *, bounded: bool = False) -> list[float]:
    """Return how many seconds after the first batch each batch was planned."""
    clock = stream.clock
    reader = ChangesStreamReader(stream, ErrorMark(), interval, clock, clock.sleep)
    if bounded:
        reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    while len(stream.planned) < batches:
        at = reader.latestOffset(at, reader.getDefaultReadLimit())
    return [time - stream.planned[0] for time in stream.planned]


def test_a_batch_begins_one_interval_after_the_previous_one() -> None:
    assert planned(Stream(Clock()), 15, 4) == [0, 15, 30, 45]


def test_a_batch_after_a_barrier_begins_at_once() -> None:
    assert planned(Stream(Clock(), frozenset({2, 3})), 15, 5) == [0, 15, 16, 17, 32]


def test_a_bounded_run_and_one_without_an_interval_never_wait() -> None:
    assert planned(Stream(Clock()), 15, 3, bounded=True) == [0, 1, 2]
    assert planned(Stream(Clock()), 0, 3) == [0, 1, 2]


def test_a_long_interval_is_waited_in_several_empty_calls() -> None:
    clock = Clock()
    reader = ChangesStreamReader(Stream(clock), ErrorMark(), 150, clock, clock.sleep)
    at = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    found = [reader.latestOffset(at, reader.getDefaultReadLimit()) for _ in range(3)]
    assert found == [at, at, {"n": 2}]
    assert clock.now == 1000 + 150 + 1


def test_one_call_without_an_interval_lasts_until_the_source_has_new_records() -> None:
    clock = Clock()
    stream = Stream(clock, quiet=30)
    reader = ChangesStreamReader(stream, ErrorMark(), 0, clock, clock.sleep)
    at = reader.initialOffset()
    assert reader.latestOffset(at, reader.getDefaultReadLimit()) == {"n": 1}
    assert stream.looks == 31  # in one call of Spark
    assert clock.now - 1000 < 30 * LONGEST_PAUSE + 1


def test_a_quiet_source_costs_few_looks_and_each_call_ends() -> None:
    clock = Clock()
    stream = Stream(clock, quiet=10_000)
    reader = ChangesStreamReader(stream, ErrorMark(), 0, clock, clock.sleep)
    at = reader.initialOffset()
    assert reader.latestOffset(at, reader.getDefaultReadLimit()) == at
    assert LONGEST_WAIT <= clock.now - 1000 <= LONGEST_WAIT + LONGEST_PAUSE
    assert stream.looks <= LONGEST_WAIT / LONGEST_PAUSE + 10


@pytest.mark.parametrize(("interval", "bounded"), [(15, False), (None, False), (0, True)])
def test_other_calls_look_once(interval: float | None, bounded: bool) -> None:
    clock = Clock()
    stream = Stream(clock, quiet=10_000)
    reader = ChangesStreamReader(stream, ErrorMark(), interval, clock, clock.sleep)
    if bounded:
        reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    assert reader.latestOffset(at, reader.getDefaultReadLimit()) == at
    assert (stream.looks, clock.now) == (1, 1000)


LOADED: list[str] = []


class Numbered(Stream):
    """A stream that records when it is unpickled."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        LOADED.append("stream")
        self.__dict__.update(state)


def test_a_source_that_is_only_passed_on_does_not_unpickle_its_stream() -> None:
    source = changes_source("numbers", "n bigint", Numbered(Clock()), ErrorMark(), 0)
    # As Spark does it: the class is sent to a process that makes the source, the source to one that makes the reader.
    made = cloudpickle.loads(cloudpickle.dumps(source))({})
    passed = pickle.loads(cloudpickle.dumps(cloudpickle.loads(cloudpickle.dumps(made)).streamReader(None)))
    assert (made.schema(), LOADED) == ("n bigint", [])
    assert passed.latestOffset(passed.initialOffset(), passed.getDefaultReadLimit()) == {"n": 1}
    assert LOADED == ["stream"]


@pytest.mark.slow
def test_passing_a_source_on_imports_no_pipelines() -> None:
    # These modules take a second of CPU, and 30 MB in each process.
    code = "import sys, penstock.ingest.spark_stream; print([m for m in sys.modules if 'penstock.pipelines' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
