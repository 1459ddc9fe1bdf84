"""Soft deletes, history and quality rules of one pipeline that is killed at random commits: each row exactly once.

PENSTOCK_CHAOS_ROUNDS=N makes N kills of the pipeline, PENSTOCK_CHAOS_SEED=S chooses the changes and the kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.shop import Shop

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "3"))
SEED = int(os.environ.get("PENSTOCK_CHAOS_SEED", "11"))
START = 1_700_000_000_000
POINTS = (
    "penstock.pipelines.driver.commit:Commits.commit:before:{}",
    "penstock.table.commit.committer:Committer.commit:before:{}",
    "penstock.table.commit.committer:Committer.commit:after:{}",
    "penstock.pipelines.driver.batch_driver:BatchDriver.take:after:{}",
)
Version = tuple[int, int, int | None]


@dataclass
class Changes:
    """Random changes of the tables `soft` and `kept`, and what the target tables must have for them."""

    dice: random.Random
    now: int = START
    live: dict[tuple[str, int], int] = field(default_factory=dict)
    soft: dict[int, tuple[int, int | None]] = field(default_factory=dict)  # the value, and when it was deleted
    kept: dict[int, list[Version]] = field(default_factory=dict)
    letters: list[int] = field(default_factory=list)  # the keys of changes that go to the dead-letter table
    unmet: Counter[str] = field(default_factory=Counter)

    def file(self, size: int) -> list[str]:
        return [self._change() for _ in range(size)] + [self._letter()]

    def _change(self) -> str:
        self.now += 1
        table, key = self.dice.choice(("soft", "kept")), self.dice.randrange(12)
        value = self.dice.randrange(10)
        old = self.live.get((table, key))
        if old is not None and self.dice.random() < 0.25:
            del self.live[table, key]
            self._delete(table, key, old)
            return self._message("DELETE", table, key, old)
        self.live[table, key] = value
        self._put(table, key, value)
        return self._message("INSERT" if old is None else "UPDATE", table, key, value)

    def _letter(self) -> str:
        """A change that the rule of `kept` refuses, of a key that has no other."""
        self.now += 1
        self.letters.append(100 + len(self.letters))
        return self._message("INSERT", "kept", self.letters[-1], -1)

    def _delete(self, table: str, key: int, value: int) -> None:
        if table == "kept":
            self._end(key)
        else:
            # A deleted row has the values that its delete comes with, also if the rule dropped them before.
            self.soft[key] = (value, self.now)

    def _put(self, table: str, key: int, value: int) -> None:
        self.unmet["expect.warn.low"] += value >= 5
        if table == "kept":
            versions = self.kept.setdefault(key, [])
            if not versions or versions[-1][2] is not None or versions[-1][0] != value:
                self._end(key)
                versions.append((value, self.now, None))
        elif value == 7:
            self.unmet["expect.drop.seven"] += 1
        else:
            self.soft[key] = (value, None)

    def _end(self, key: int) -> None:
        versions = self.kept.get(key, [])
        if versions and versions[-1][2] is None:
            versions[-1] = (*versions[-1][:2], self.now)

    def _message(self, kind: str, table: str, key: int, value: int) -> str:
        return json.dumps(
            {
                "type": kind,
                "database": "shop",
                "table": table,
                "isDdl": False,
                "pkNames": ["id"],
                "mysqlType": {"id": "bigint", "v": "int"},
                "data": [{"id": str(key), "v": str(value)}],
                "old": [{"v": "-9"}] if kind == "UPDATE" else None,
                "es": self.now,
                "ts": self.now,
            }
        )


@dataclass
class Pipeline:
    """One pipeline over files, in processes of its own."""

    shop: Shop

    @property
    def file(self) -> Path:
        return self.shop.folder / "pipeline.yaml"

    def configure(self, *rules: dict[str, str]) -> None:
        routes = [
            {"source-table": f"shop.{table}", "sink-table": f"ods.{table}", "deletes": deletes}
            for table, deletes in (("soft", "soft"), ("kept", "history"))
        ]
        self.file.write_text(
            json.dumps(
                {
                    "source": {
                        "type": "files",
                        "path": str(self.shop.inbox),
                        "value.format": "canal-json",
                        "order": "name",
                    },
                    "pipeline": {
                        "name": "shop",
                        "checkpoint": f"{self.shop.folder}/checkpoint",
                        "until": "caught-up",
                        "max-batch": {"bytes": "2 kb"},
                    },
                    "sink": {
                        "catalog": {"warehouse": f"{self.shop.folder}/warehouse"},
                        "database": "ods",
                        "table-options": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
                    },
                    "errors": {"bad-record": "dead-letter"},
                    "route": routes,
                    "expect": rules,
                }
            )
        )

    def start(self, verb: str, kill: str = "none") -> int:
        """Run in a process, and return its exit code."""
        words = [sys.executable, "-W", "ignore", "-m", "tests.chaos.shop_child", verb, str(self.file), kill]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr
        return done.returncode

    def soft(self) -> dict[int, tuple[int, int | None]]:
        return {row["id"]: (row["v"], _millis(row["_deleted_at"])) for row in self.shop.rows("soft")}

    def kept(self) -> dict[int, list[Version]]:
        found: dict[int, list[Version]] = {}
        for row in self.shop.rows("kept"):
            assert row["is_current"] == (row["valid_to"] is None) == (row["_end_position"] == "")
            begin, end = _millis(row["valid_from"]), _millis(row["valid_to"])
            assert begin is not None
            found.setdefault(row["id"], []).append((row["v"], begin, end))
        return {key: sorted(versions, key=lambda version: version[1]) for key, versions in found.items()}

    def letters(self) -> list[str]:
        rows = self.shop.table("__penstock_dead_letters").scan().to_arrow()
        return list(rows.column("source_position").to_pylist())

    def counted(self) -> Counter[str]:
        """What the batches of the run reported. A repeated batch reports the same again, and counts once."""
        reports: dict[int, dict[str, int]] = {}
        for line in (self.shop.folder / "reports.json").read_text().splitlines():
            number, passed_over = json.loads(line)
            assert reports.setdefault(number, passed_over) == passed_over
        found = Counter[str]()
        for report in reports.values():
            found.update({name: count for name, count in report.items() if name.startswith("expect.")})
        return found


def _millis(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


WARN = {"source-table": "shop.*", "condition": "v < 5", "action": "warn", "name": "low"}
DROP = {"source-table": "shop.soft", "condition": "v <> 7", "action": "drop", "name": "seven"}
KEEP = {"source-table": "shop.kept", "condition": "v >= 0", "action": "dead-letter", "name": "negative"}


def test_kills_at_random_commits_write_and_count_each_row_once(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    changes, pipeline = Changes(dice), Pipeline(Shop(tmp_path))
    pipeline.configure(WARN, DROP, KEEP)
    ended = []
    for number in range(ROUNDS):
        for part in range(2):
            pipeline.shop.put(f"{number:03}-{part}.json", *changes.file(30))
        ended.append(pipeline.start("run", dice.choice(POINTS).format(dice.randint(1, 4))))
    pipeline.start("run")
    assert -signal.SIGKILL in ended or not ROUNDS, "all processes were done before they could be killed"
    assert pipeline.soft() == changes.soft
    assert pipeline.kept() == changes.kept
    assert len(pipeline.letters()) == len(set(pipeline.letters())) == len(changes.letters)
    assert pipeline.counted() == changes.unmet + Counter({"expect.dead-letter.negative": len(changes.letters)})

    # The rule was too strict. A replay that is killed after its commit is repeated, and writes nothing twice.
    pipeline.configure(WARN, DROP)
    assert pipeline.start("replay", POINTS[2].format(1)) == -signal.SIGKILL
    assert pipeline.start("replay") == 0
    assert pipeline.letters() == []
    kept = pipeline.kept()
    replayed = {key: [(value, end) for value, _, end in kept.pop(key)] for key in changes.letters}
    assert replayed == {key: [(-1, None)] for key in changes.letters}
    assert kept == changes.kept
    assert pipeline.soft() == changes.soft
