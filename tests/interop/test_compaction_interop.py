"""Compaction: what is picked is what Java picks, and codes of curves are Java's."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.storage.local import LocalStorage
from penstock.table.compaction.policy import Policy, pick, sized_runs
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.live import live_entries
from penstock.table.meta.store import TableStore
from penstock.table.operations.compact import compact_table, sort_table
from penstock.table.options.table_options import TableOptions
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.curves import value_codes, z_codes
from penstock.table.values.types import parse_type
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.unit.table.merge.test_sorted_runs import data_file

CASES = 3000
MINUTE = 60_000


def random_levels(rng: random.Random, num_levels: int) -> Levels:
    """Sizes from one another's neighbourhood to far apart, so that every rule decides some cases."""
    scale = 10 ** rng.randint(1, 6)
    sizes = [max(1, int(rng.lognormvariate(0, rng.choice((0.1, 1, 3))) * scale)) for _ in range(14)]
    files = [
        replace(data_file(f"L0-{place}", 0, 9, sequences=(100 - place, 100 - place)), size=sizes[place])
        for place in range(rng.randint(0, 9))
    ]
    for level in range(1, num_levels):
        if rng.random() < 0.5:
            size = sizes[9 + level % 5] * rng.choice((1, 10, 1000))
            files.append(replace(data_file(f"L{level}", 0, 9, level=level), size=size))
    return Levels.of(files, num_levels)


def random_policy(rng: random.Random) -> tuple[Policy, list[int] | None]:
    """As a table's options make it; also the hours of rest in them, with their ratio and the hour it is made for."""
    trigger = rng.choice((1, 2, 3, 5, 5, 8))
    rest = [rng.randrange(24), rng.randrange(24), rng.choice((1, 50, 300)), rng.randrange(24)]
    options = {
        "num-sorted-run.compaction-trigger": trigger,
        "num-levels": rng.choice((trigger + 1, 3, 6)),
        "compaction.max-size-amplification-percent": rng.choice((0, 50, 200, 200, 1000)),
        "compaction.size-ratio": rng.choice((0, 1, 1, 20, 100)),
        "compaction.force-up-level-0": rng.choice(("true", "false")),
    }
    if rng.random() < 0.25:
        options["compaction.total-size-threshold"] = "1000 b"
    if rng.random() < 0.25:
        options["compaction.optimization-interval"] = "30 min"
    resting = rng.random() < 0.25
    if resting:
        names = ("offpeak.start.hour", "offpeak.end.hour", "offpeak-ratio")
        options |= {f"compaction.{name}": value for name, value in zip(names, rest, strict=False)}
    policy = Policy.of(TableOptions({name: str(value) for name, value in options.items()}), hour=rest[3])
    return policy, rest if resting else None


def rested(rest: list[int] | None) -> int:
    """Return what the offpeak hours add to the ratio, which Java receives too."""
    if rest is None:
        return 0
    start, end, ratio, hour = rest
    options = {"compaction.offpeak.start.hour": start, "compaction.offpeak.end.hour": end}
    options |= {"compaction.offpeak-ratio": ratio, "compaction.size-ratio": 0}
    return Policy.of(TableOptions({name: str(value) for name, value in options.items()}), hour=hour).size_ratio


@pytest.mark.parametrize("seed", range(4))
def test_universal_compaction_picks_the_files_of_java(oracle: Oracle, seed: int) -> None:
    rng = random.Random(seed)
    cases: list[dict[str, Any]] = []
    ours: list[list[int]] = []
    for _ in range(CASES):
        policy, rest = random_policy(rng)
        # Far from the interval on either side, or not known: Java counts by its own clock.
        idle = rng.choice((None, MINUTE, 60 * MINUTE)) if policy.optimization_interval else None
        levels = random_levels(rng, policy.num_levels)
        if not levels.all_files:
            continue
        cases.append(
            {
                "runs": [[run.level, run.size] for run in sized_runs(levels)],
                "levels": policy.num_levels,
                "amplification": policy.max_amplification,
                "ratio": policy.size_ratio - rested(rest),
                "interval": policy.optimization_interval,
                "idle": idle,
                "rest": rest,
                "trigger": policy.trigger,
                "total": policy.total_size_threshold,
                "up": policy.up_level0,
            }
        )
        found = pick(policy, levels, idle_millis=idle)
        ours.append([] if found is None else [len(found.files), found.level])
    javas = [_done(case, found) for case, found in zip(cases, oracle.ask("pick", cases=cases)["picks"], strict=True)]
    assert sum(1 for found in javas if found) > CASES / 4
    assert [(case, o, j) for case, o, j in zip(cases, ours, javas, strict=True) if o != j] == []


def _done(case: dict[str, Any], found: list[int]) -> list[int]:
    """A single file that is where it should be is picked by Java too, and left alone a moment later."""
    return [] if found and found[0] == 1 and case["runs"][0][0] == found[1] else found


ROWS: list[list[Any]] = [
    [0, 0, 0, "", False, "2026-01-01T00:00:00.123456", "1969-07-20"],
    [-1, 5_000_000_000, 7, "abc", True, "1960-01-01T00:00:00.000000", "2026-01-01"],
    [2**31 - 1, -(2**40), -8, "longer than eight", False, "2100-01-01T00:00:00.000001", "1970-01-01"],
    [None, None, None, None, None, None, None],
]
TYPES = ["INT", "BIGINT", "TINYINT", "STRING", "BOOLEAN", "TIMESTAMP(6)", "DATE"]


def test_codes_of_the_z_curve_equal_those_of_java(oracle: Oracle) -> None:
    types = [parse_type(text) for text in TYPES]
    columns = [pa.array([row[place] for row in ROWS]) for place in range(len(TYPES))]
    columns = [column.cast(to_arrow(type_)) for column, type_ in zip(columns, types, strict=True)]
    codes = z_codes([value_codes(column, type_) for column, type_ in zip(columns, types, strict=True)])
    assert [bytes(code).hex() for code in codes] == oracle.ask("curve", types=TYPES, rows=ROWS)["places"]


def opened(path: Path) -> TableStore:
    return TableStore.open(LocalStorage(sync=False), str(path))


def appended(oracle: Oracle, folder: Path, files: int, **options: str) -> Path:
    columns = [("p", "STRING NOT NULL"), ("a", "INT"), ("b", "STRING")]
    named = {name.replace("_", "-"): value for name, value in options.items()}
    path = oracle.create(folder, "shop.t", columns, partition_keys=["p"], options={"bucket": "-1", **named})
    rng = random.Random(files)
    for number in range(files):
        oracle.write(path, [("+I", "xy"[number % 2], rng.randint(0, 99), f"{place}") for place in range(number + 1)])
    return path


@pytest.mark.parametrize("files", [8, 12])
def test_small_files_without_buckets_are_packed_as_java_packs_them(oracle: Oracle, tmp_path: Path, files: int) -> None:
    ours, javas = (appended(oracle, tmp_path / name, files) for name in ("ours", "javas"))
    wanted = oracle.read(ours)
    compact_table(opened(ours), full=False)
    oracle.compact(javas)
    counts = []
    for path in (ours, javas):
        live = live_entries(opened(path), opened(path).snapshots.latest())  # type: ignore[arg-type]
        counts.append(sorted((entry.partition, entry.file.row_count) for entry in live))
    assert counts[0] == counts[1]
    assert difference(oracle.read(ours), wanted) is None


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
def test_java_reads_and_continues_a_sorted_table(oracle: Oracle, tmp_path: Path, strategy: str) -> None:
    path = appended(oracle, tmp_path, 6)
    wanted = oracle.read(path)
    (made,) = sort_table(opened(path), strategy, ["a", "b"])
    assert difference(oracle.read(path), wanted) is None
    assert len(oracle.files(path)) == 2
    assert oracle.stream(path, made.id) == []
    oracle.write(path, [("+I", "x", 1, "new")])
    oracle.compact(path)
    assert len(oracle.read(path).rows) == len(wanted.rows) + 1
