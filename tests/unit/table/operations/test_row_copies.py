"""Delete, rescale, clone and analyze in units: the same rows as in one, whatever the buckets and the executor are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.clone import clone_table
from penstock.table.handle import Table
from penstock.table.operations.executor import Executor, OfUnit, ProcessPool, Result, Work, WorkUnit
from tests.invariants import check_invariants
from tests.unit.table.tables import content

KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "fixed": (["dt", "id"], {"bucket": "4"}),
    "write-only": (["dt", "id"], {"bucket": "6", "write-only": "true"}),
    "lookup": (["dt", "id"], {"bucket": "3", "changelog-producer": "lookup"}),
    "full compaction": (
        ["dt", "id"],
        {"bucket": "3", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"},
    ),
    "vectors": (["dt", "id"], {"bucket": "4", "deletion-vectors.enabled": "true"}),
    "dynamic": (["dt", "id"], {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}),
    "append": ([], {"bucket": "-1"}),
    "append with vectors": ([], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "append in buckets": ([], {"bucket": "4", "bucket-key": "id"}),
}


def rescaled(table: Table, executor: Executor) -> Table:
    table.rescale(6, executor=executor)
    # Only one of the partitions, so that they have different numbers of buckets.
    table.rescale(12, {"dt": "day-0"}, executor=executor)
    table.rescale(9, executor=executor)
    return table


def deleted(table: Table, executor: Executor) -> Table:
    table.delete("id % 3 = 0", executor)
    table.delete("id < 40 AND v LIKE '%1'", executor)
    assert table.delete("id > 100000", executor) == []
    return table


def cloned(table: Table, executor: Executor) -> Table:
    catalog = Catalog(str(Path(table.path).parents[1]))
    return clone_table(table, catalog, "shop.copy", executor=executor, where="id % 5 <> 0")


def cloned_to_other_buckets(table: Table, executor: Executor) -> Table:
    catalog = Catalog(str(Path(table.path).parents[1]))
    return clone_table(table, catalog, "shop.copy", executor=executor, options={"bucket": "6"})


Action = Callable[[Table, Executor], Table]
CASES: list[tuple[Action, str]] = [
    *((rescaled, kind) for kind in ("lookup", "vectors")),
    *((deleted, kind) for kind in KINDS),
    *((cloned, kind) for kind in ("fixed", "full compaction", "dynamic", "append")),
    *((cloned_to_other_buckets, kind) for kind in ("write-only", "append in buckets")),
]


@dataclass
class Recorder:
    """Runs units in this process, and keeps them by job."""

    jobs: list[list[WorkUnit]] = field(default_factory=list)

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        self.jobs.append(list(units))
        return map(work, units)


def made(folder: Path, kind: str, seed: int = 1) -> Table:
    keys, options = KINDS[kind]
    catalog = Catalog(str(folder), {"local.sync": "false"})
    catalog.create_database("shop")
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING")]
    table = catalog.create_table("shop.orders", columns, keys, ["dt"], options)
    chance = random.Random(seed)
    for turn in range(3):
        ids = chance.sample(range(150), 60)
        days = [f"day-{chance.randrange(2)}" for _ in ids]
        with table.writer() as writer:
            writer.write(
                pa.table({"dt": days, "id": pa.array(ids, pa.int32()), "v": [f"{turn}-{number}" for number in ids]})
            )
            writer.commit()
    return table


@pytest.mark.slow
@pytest.mark.parametrize(("action", "kind"), CASES, ids=lambda case: case if isinstance(case, str) else case.__name__)
def test_units_change_the_rows_that_the_action_names(tmp_path: Path, action: Action, kind: str) -> None:
    table, recorder = made(tmp_path, kind), Recorder()
    before = content(table)
    wanted = {
        rescaled: lambda row: True,
        cloned_to_other_buckets: lambda row: True,
        deleted: lambda row: row[1] % 3 != 0 and not (row[1] < 40 and row[2].endswith("1")),
        cloned: lambda row: row[1] % 5 != 0,
    }[action]
    after = action(table, recorder)
    assert content(after) == [row for row in before if wanted(row)]
    check_invariants(after)
    divided = kind not in {"dynamic", "full compaction"} or (action is cloned and kind == "full compaction")
    assert (max(map(len, recorder.jobs)) > 1) == divided


@pytest.mark.slow
def test_a_rescale_has_a_unit_for_each_common_divisor_and_partition(tmp_path: Path) -> None:
    table, recorder = made(tmp_path, "fixed"), Recorder()
    for number in (6, 3, 5, 10):
        table.rescale(number, executor=recorder)
    assert [len(job) for job in recorder.jobs] == [2 * common for common in (2, 3, 1, 5)]  # of 4 and 6, 6 and 3, ...


@pytest.mark.slow
@pytest.mark.parametrize("action", [rescaled, deleted, cloned])
def test_an_action_that_fails_leaves_no_files_and_no_snapshot(tmp_path: Path, action: Action) -> None:
    table = made(tmp_path, "fixed")

    class FailsAtTheEnd(Recorder):
        def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
            yield from map(work, units)
            raise ConfigError("no more")

    before = set(tmp_path.rglob("*.parquet"))
    with pytest.raises(ConfigError, match="no more"):
        action(table, FailsAtTheEnd())
    assert set(tmp_path.rglob("*.parquet")) == before
    assert table.latest_snapshot is not None
    assert table.latest_snapshot.id == 3


@pytest.mark.slow
@pytest.mark.parametrize("action", [deleted, cloned])
def test_processes_make_the_same_table_as_this_process(tmp_path: Path, action: Action) -> None:
    here, apart = (made(tmp_path / place, "lookup") for place in ("here", "apart"))
    expected, found = action(here, Recorder()), action(apart, ProcessPool(2, 0))
    assert content(found) == content(expected)
    check_invariants(found)


@pytest.mark.parametrize("kind", ["fixed", "append"])
def test_statistics_of_splits_add_up(tmp_path: Path, kind: str) -> None:
    whole, divided = made(tmp_path / "whole", kind), made(tmp_path / "divided", kind)
    whole.analyze()
    recorder = Recorder()
    divided.analyze(executor=recorder)
    assert len(recorder.jobs[0]) > 1
    found, expected = (_statistics(table) for table in (divided, whole))
    assert found == expected
    rows = content(whole)
    assert found["mergedRecordCount"] == len(rows)
    assert found["colStats"]["id"]["distinctCount"] == len({row[1] for row in rows})
    assert found["colStats"]["v"]["maxLen"] == max(len(str(row[2])) for row in rows)


def _statistics(table: Table) -> dict[str, object]:
    (path,) = Path(table.path).glob("statistics/*")
    found = json.loads(path.read_text())
    del found["mergedRecordSize"]  # bytes of files, whose names differ
    return found  # type: ignore[no-any-return]
