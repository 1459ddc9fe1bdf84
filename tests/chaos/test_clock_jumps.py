"""A driver whose clock is set an hour ahead and an hour back while it runs, by libfaketime (Debian: faketime)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.table.handle import Table
from tests.chaos.bank import Bank, end
from tests.integration.kafka.conftest import Broker

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is missing: apt-get install faketime"),
]
HOURLY_TAGS = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}


def set_clock(file: Path, hours: int) -> None:
    part = file.with_name("clock.part")
    part.write_text(f"{hours:+d}h")
    part.replace(file)


def test_a_clock_that_is_set_during_a_run_loses_and_repeats_nothing(broker: Broker, tmp_path: Path) -> None:
    bank, dice, clock = Bank(broker, tmp_path, spark="when-needed"), random.Random(3), tmp_path / "clock"
    set_clock(clock, 0)
    faked = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    words = [word for key, value in HOURLY_TAGS.items() for word in ("--table-conf", f"{key}={value}")]
    bank.send(120)
    driver = bank.start("none", 1, *words, **faked)
    try:
        for hours in (0, 1, -1, 0, 2, -2, 1):
            set_clock(clock, hours)
            for _ in range(3):
                before = bank.snapshots()
                bank.send(dice.randint(30, 90))
                bank.wait_until(lambda before=before: bank.snapshots() - before or driver.poll() is not None)  # type: ignore[misc]
            assert driver.poll() is None, bank.log()
            bank.check_sound()
    finally:
        end(driver)
    set_clock(clock, 0)
    assert bank.run() == 0, bank.log()
    bank.check_whole()
    assert "Traceback" not in (tmp_path / "driver.log").read_text()
    for table in bank.tables():
        assert times_of(table) == sorted(times_of(table))


def times_of(table: Table) -> list[int]:
    return [snapshot.time_millis for snapshot in table.snapshots]
