"""Time and randomness as parameters. Nothing else in the table code reads the machine's clock or random source."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


def _elapsed_millis() -> int:
    return time.monotonic_ns() // 1_000_000


def _zone_offset_millis(now: int) -> int:
    return time.localtime(now / 1000).tm_gmtoff * 1000


def _new_uuid() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Environment:
    """The sources of everything that differs from run to run.

    With a seeded environment, a whole table is reproducible to the byte. `elapsed_millis` measures durations: it
    goes on evenly when the clock of the machine is set, and its value alone means nothing.
    """

    now_millis: Callable[[], int] = _now_millis
    elapsed_millis: Callable[[], int] = _elapsed_millis
    zone_offset_millis: Callable[[int], int] = _zone_offset_millis
    new_uuid: Callable[[], str] = _new_uuid
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def local_millis(self) -> int:
        """Return the local wall clock time as if it were UTC, as Java does for the creation time of data files."""
        now = self.now_millis()
        return now + self.zone_offset_millis(now)


def seeded(seed: int, start_millis: int = 1_700_000_000_000, step_millis: int = 1) -> Environment:
    """Return a reproducible environment: its clock advances by one step per call, and the seed determines its UUIDs."""
    rng = random.Random(seed)  # noqa: S311 -- names of files, not secrets
    clock = [start_millis]

    def now() -> int:
        clock[0] += step_millis
        return clock[0]

    return Environment(
        now_millis=now,
        elapsed_millis=now,
        zone_offset_millis=lambda _now: 0,
        new_uuid=lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        sleep=lambda _seconds: None,
        jitter=rng.random,
    )
