"""Real file systems that are full for a while: those of the checkpoint, of the tables, and of Spark's temporary files.

A run ends with an error that names the disk, loses nothing, and the next one continues once there is room again.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.bank import Bank
from tests.integration.kafka.conftest import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

MEGABYTES = 24


@dataclass
class SmallDisk:
    """A file system in memory, mounted at a folder."""

    folder: Path

    @property
    def _filling(self) -> Path:
        return self.folder / ".filling"

    def fill(self, left: int) -> None:
        """Leave so many bytes free."""
        with self._filling.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                file.truncate(max(0, file.tell() - left))

    def free(self) -> None:
        self._filling.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"file systems cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def ends_by_the_full_disk(bank: Bank, disk: SmallDisk, left: int) -> bool:
    """Run with so much room. Return whether the disk ended the run, which it must name."""
    log = bank.folder / "driver.log"
    log.unlink(missing_ok=True)
    disk.fill(left)
    code = bank.run()
    disk.free()
    text = bank.log()
    assert "Traceback" not in text
    assert code == 0 or "the disk is full" in text or "not known whether the commit" in text, f"{code}: {text}"
    bank.check_sound()
    return code != 0


@pytest.mark.parametrize(
    ("place", "spark"),
    [
        ("checkpoint", "when-needed"),
        ("warehouse", "when-needed"),
        pytest.param("checkpoint", "always", marks=pytest.mark.spark),
        pytest.param("warehouse", "always", marks=pytest.mark.spark),
        pytest.param("temporary", "always", marks=pytest.mark.spark),
    ],
)
def test_runs_continue_after_a_full_disk_without_loss(
    place: str, spark: str, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(3)
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / place))
        # What is before and after the full disk is done without Spark, whose start takes longest.
        bank = Bank(broker, tmp_path, spark="when-needed", settings=[f"spark.local.dir={tmp_path}/temporary"])
        if place == "temporary":
            monkeypatch.setenv("TMPDIR", str(tmp_path / place))
        bank.send(120)
        assert bank.run() == 0, bank.log()
        bank.spark, ended = spark, list[bool]()
        rooms = [0, 4096, 8192, 20_000, 60_000, 200_000]
        for left in rooms if spark == "when-needed" else dice.sample(rooms, 2):
            bank.send(240)
            ended.append(ends_by_the_full_disk(bank, disk, left))
        assert any(ended)
        bank.spark = "when-needed"
        assert bank.run() == 0, bank.log()
        bank.check_whole()
