"""Compaction in other processes: the same rows and files as in this one, with keys, vectors and without buckets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.operations.bucket_compaction import BucketCompaction, BucketUnit
from penstock.table.operations.executor import OfUnit, ProcessPool, Result, Work
from penstock.table.operations.selection import Selection
from tests.invariants import check_invariants
from tests.unit.table.tables import content

KEYED = {"bucket": "3", "write-only": "true", "num-sorted-run.compaction-trigger": "2"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keys": (["dt", "id"], KEYED),
    "changelog": (["dt", "id"], {**KEYED, "changelog-producer": "full-compaction"}),
    "vectors": (["dt", "id"], {**KEYED, "deletion-vectors.enabled": "true"}),
    "append": ([], {"bucket": "-1", "write-only": "true", "target-file-size": "4kb"}),
}


@dataclass
class Recorder:
    """Runs units in this process, and keeps them."""

    units: list[BucketUnit] = field(default_factory=list)

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        self.units += units  # type: ignore[arg-type]  # only compaction is run here
        return map(work, units)


def made(folder: Path, kind: str, turns: int = 6, seed: int = 1) -> Table:
    keys, options = KINDS[kind]
    catalog = Catalog(str(folder), {"local.sync": "false"})
    catalog.create_database("shop")
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING")]
    table = catalog.create_table("shop.orders", columns, keys, ["dt"], options)
    chance = random.Random(seed)
    for turn in range(turns):
        ids = chance.sample(range(300), 60)
        days = [f"day-{chance.randrange(2)}" for _ in ids]
        with table.writer() as writer:
            writer.write(
                pa.table({"dt": days, "id": pa.array(ids, pa.int32()), "v": [f"{turn}-{number}" for number in ids]})
            )
            writer.commit()
    return table


def shape(table: Table) -> Counter[tuple[object, ...]]:
    """The files of the table without their names."""
    assert table.latest_snapshot is not None
    return Counter(
        (entry.partition, entry.bucket, entry.file.level, entry.file.row_count)
        for entry in live_entries(table.store, table.latest_snapshot)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["changelog", "vectors", "append"])
def test_processes_make_the_same_table_as_this_process(tmp_path: Path, kind: str) -> None:
    here, apart = made(tmp_path / "here", kind), made(tmp_path / "apart", kind)
    before = content(here)
    first = here.compact(full=False)
    assert len(apart.compact(full=False, executor=ProcessPool(2, 0))) == len(first)
    here.compact()
    apart.compact()
    assert content(here) == content(apart)
    assert kind == "vectors" or content(apart) == before
    assert shape(here) == shape(apart)
    check_invariants(apart)


@pytest.mark.slow
def test_partitions_are_sorted_in_processes(tmp_path: Path) -> None:
    here, apart = made(tmp_path / "here", "append"), made(tmp_path / "apart", "append")
    before = content(here)
    here.sort(["id"])
    apart.sort(["id"], executor=ProcessPool(2, 0))
    assert content(here) == content(apart) == before
    assert shape(here) == shape(apart)


def test_only_buckets_that_are_due_become_units(tmp_path: Path) -> None:
    table, recorder = made(tmp_path, "keys"), Recorder()
    table.compact(full=False, executor=recorder)
    assert sorted((unit.partition, unit.bucket) for unit in recorder.units) == sorted(
        {(partition, bucket) for partition, bucket, *_ in shape(table)}
    )
    recorder.units.clear()
    assert table.compact(full=False, executor=recorder) == []
    assert recorder.units == []


@pytest.mark.slow
def test_files_of_a_partition_without_buckets_are_several_units(tmp_path: Path) -> None:
    table = made(tmp_path, "append", turns=24)
    files = shape(table).total()
    compaction = BucketCompaction.of(table.store, {"target-file-size": "3kb"})
    assert table.latest_snapshot is not None
    units = compaction.units(table.latest_snapshot, Selection())
    names = [file.name for unit in units for file in unit.state.files]
    assert len(names) == len(set(names)) == files
    assert len(units) > len({unit.partition for unit in units}) == 2
    assert compaction.units(table.latest_snapshot, Selection([{"dt": "day-0"}])) == [
        unit for unit in units if unit.partition == units[0].partition
    ]


@pytest.mark.slow
def test_files_of_an_action_that_fails_are_deleted(tmp_path: Path) -> None:
    table = made(tmp_path, "keys")

    def files() -> set[Path]:
        return set((tmp_path / "shop.db" / "orders").rglob("bucket-*/*"))

    class FailsAtTheEnd(Recorder):
        def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
            yield from map(work, units)
            assert files() > before  # the results are there, and are about to be dropped
            raise ConfigError("no more")

    before = files()
    with pytest.raises(ConfigError, match="no more"):
        table.compact(executor=FailsAtTheEnd())
    assert files() == before
