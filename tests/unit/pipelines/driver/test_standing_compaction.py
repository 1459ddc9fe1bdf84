"""Compaction that keeps watching: what changed, new tables, tables that fail, writers that are faster, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StoreError, TableCorrupt
from penstock.pipelines.driver.standing_compaction import StandingCompaction
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.meta.store import TableMissing
from penstock.table.operations.executor import OfUnit, OwnProcess, Result, Work
from tests.invariants import check_invariants
from tests.waiting import ended, until

OPTIONS = {"bucket": "2", "write-only": "true", "num-sorted-run.compaction-trigger": "3"}


@dataclass
class Interrupted:
    """Runs units in this process, and calls something after the units of each job ran, before their commit."""

    then: Callable[[], object]
    jobs: list[int] = field(default_factory=list)

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        self.jobs.append(len(units))
        results = [work(unit) for unit in units]
        self.then()
        return iter(results)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(str(tmp_path), {"local.sync": "false"})
    made.create_database("shop")
    return made


def new_table(catalog: Catalog, name: str, commits: int = 0, **options: str) -> Table:
    columns = [("id", "INT NOT NULL"), ("v", "STRING")]
    table = catalog.create_table(f"shop.{name}", columns, ["id"], [], {**OPTIONS, **options})
    for turn in range(commits):
        add(table, turn)
    return table


def add(table: Table, turn: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array(range(turn, turn + 20), pa.int32()), "v": [f"{turn}"] * 20}))
        writer.commit()


def small_files(table: Table) -> int:
    assert table.latest_snapshot is not None
    return sum(entry.file.level == 0 for entry in live_entries(table.store, table.latest_snapshot))


def of(catalog: Catalog, *names: str, **given: object) -> StandingCompaction:
    settings = {"executor": OwnProcess(), **given}
    return StandingCompaction(catalog, lambda: [f"shop.{name}" for name in names], **settings)  # type: ignore[arg-type]


def test_a_round_compacts_only_what_is_due_in_tables_that_changed(catalog: Catalog) -> None:
    executor = Interrupted(int)
    table, few = new_table(catalog, "orders", commits=3), new_table(catalog, "few", commits=1)
    standing = of(catalog, "orders", "few", executor=executor, together=True)
    assert standing.round()
    assert executor.jobs == [2]  # the buckets of one table, in one job
    assert (small_files(table), small_files(few)) == (0, 2)
    assert standing.made == {"shop.orders": [4]}
    assert not standing.round()  # what the compaction itself changed
    assert not standing.round()
    assert executor.jobs == [2, 0]  # and then the tables are not planned again
    for turn in range(3):
        add(table, turn)
    assert standing.round()
    check_invariants(table)


def test_each_table_has_its_own_job_unless_they_run_together(catalog: Catalog) -> None:
    for together, jobs in ((False, [2, 2]), (True, [4])):
        executor = Interrupted(int)
        names = [f"{name}_{together}".lower() for name in ("a", "b")]
        for name in names:
            new_table(catalog, name, commits=3)
        assert of(catalog, *names, executor=executor, together=together).round()
        assert executor.jobs == jobs


def test_a_faster_compaction_wins_and_the_rows_of_writers_are_kept(catalog: Catalog) -> None:
    table = new_table(catalog, "orders", commits=3)
    executor = Interrupted(table.compact)
    standing = of(catalog, "orders", executor=executor, strict=True)
    assert not standing.round()  # lost to another compaction, and its files are deleted
    check_invariants(table)
    for turn in range(10, 13):
        add(table, turn)
    executor.then = lambda: add(table, 50)
    assert standing.round()  # rows that arrive meanwhile do not disturb it
    rows = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert rows[50] == "50"
    assert rows[12] == "12"
    check_invariants(table)


def test_tables_that_are_dropped_made_or_broken_do_not_stop_the_others(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    new_table(catalog, "gone", commits=3)
    broken, good = new_table(catalog, "broken", commits=3), new_table(catalog, "good", commits=3)
    assert broken.latest_snapshot is not None
    for entry in live_entries(broken.store, broken.latest_snapshot):
        next((Path(broken.path)).rglob(entry.file.name)).write_bytes(b"no parquet")
    standing = StandingCompaction(
        catalog, lambda: [f"shop.{name}" for name in catalog.tables("shop")], OwnProcess(), together=True
    )
    catalog.drop_table("shop.gone")
    assert standing.round()
    assert standing.made == {"shop.good": [4]}
    failed = [record.getMessage() for record in caplog.records if "compaction_failed" in record.getMessage()]
    assert len(failed) == 1
    assert "table=shop.broken" in failed[0]
    new_table(catalog, "new", commits=3)
    assert standing.round()
    assert standing.made == {"shop.good": [4], "shop.new": [4]}
    assert sum("compaction_failed" in record.getMessage() for record in caplog.records) == 1  # until it changes
    check_invariants(good)
    with pytest.raises(TableCorrupt):
        of(catalog, "broken", strict=True).round()
    with pytest.raises(TableMissing):
        of(catalog, "gone", strict=True).round()


def test_errors_that_pass_are_tried_again(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(catalog, "orders", commits=3)

    class Down:
        left = 2

        def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
            self.left -= 1
            if self.left >= 0:
                raise StoreError("the store does not answer")
            return map(work, units)

    standing = of(catalog, "orders", executor=Down(), strict=True)
    assert [standing.round() for _ in range(3)] == [False, False, True]
    assert small_files(table) == 0
    assert sum("retried=true" in record.getMessage() for record in caplog.records) == 2


@pytest.mark.slow
def test_it_runs_beside_a_writer_until_it_is_stopped(catalog: Catalog) -> None:
    table = new_table(catalog, "orders")
    standing = of(catalog, "orders", strict=True)
    thread = threading.Thread(target=standing.run, args=(0.01,))
    thread.start()
    try:
        for turn in range(12):
            add(table, turn)
    finally:
        try:
            until(lambda: small_files(table) <= 4, "compactions")
        finally:
            standing.stop()
            ended(thread)
    assert small_files(table) <= 4
    assert {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()} == {
        **{number: str(number) for number in range(12)},
        **dict.fromkeys(range(11, 31), "11"),
    }
    check_invariants(table)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "mode"), [(signal.SIGTERM, "combined"), (signal.SIGINT, "divided")])
def test_a_command_that_watches_ends_after_a_signal(
    catalog: Catalog, tmp_path: Path, number: signal.Signals, mode: str
) -> None:
    table = new_table(catalog, "orders", commits=3)
    words = ["compact-database", "--warehouse", catalog.warehouse, "--including-tables", r"shop\..*", "--json"]
    words += ["--mode", mode, "--interval", "50 ms", "-Dexecution.runtime-mode=streaming", "--parallelism", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.pipelines.commands.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
    )
    try:
        until(lambda: not small_files(table), "the compaction of the table")
        # A table that is there while the command runs, with all its commits at once.
        elsewhere = Catalog(str(tmp_path / "elsewhere"), {"local.sync": "false"})
        elsewhere.create_database("shop")
        Path(new_table(elsewhere, "late", commits=3).path).rename(Path(table.path).parent / "late")
        late = catalog.table("shop.late")
        found = mode == "combined"
        if found:
            until(lambda: not small_files(late), "the compaction of the new table")
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, err.decode()
    expected = {"shop.orders": [4]} | ({"shop.late": [4]} if found else {})
    assert json.loads(out) == {"tables": expected}
    assert b"event=compacted table=shop.orders" in err
