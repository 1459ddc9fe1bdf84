"""Actions whose units run in Spark: the same results as in processes of this machine, for random tables."""

from __future__ import annotations

import json
import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.errors import ConfigError
from penstock.pipelines.commands.main import main
from penstock.pipelines.errors import TasksLost
from penstock.pipelines.spark.units import SparkUnits
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.clone import copy_table
from penstock.table.handle import Table
from penstock.table.operations.executor import OwnProcess
from tests.invariants import check_invariants
from tests.unit.table.operations.test_compact_units import KINDS, made, shape
from tests.unit.table.operations.test_row_copies import Action, cloned, deleted, rescaled
from tests.unit.table.operations.test_row_copies import made as table_of
from tests.unit.table.tables import content

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Number:
    value: int
    size: int = 1


def refused(unit: Number) -> int:
    raise ConfigError(f"unit {unit.value} is refused", table="shop.orders", hint="mend it")


@pytest.mark.parametrize("seed", range(3))
def test_spark_makes_the_same_tables_as_this_process(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    kind = random.Random(seed).choice(sorted(KINDS))
    here, there = (made(tmp_path / place, kind, seed=seed) for place in ("here", "there"))
    for full in (False, True):
        here.compact(full=full)
        there.compact(full=full, executor=SparkUnits(spark, 2))
        assert content(here) == content(there)
        assert shape(here) == shape(there)
    check_invariants(there)


@pytest.mark.parametrize("action", [rescaled, deleted, cloned], ids=lambda action: action.__name__)
def test_other_actions_make_the_same_tables(spark: SparkSession, tmp_path: Path, action: Action) -> None:
    kind = "append with vectors" if action is deleted else "lookup"
    here, there = (table_of(tmp_path / place, kind, seed=7) for place in ("here", "there"))
    expected, found = action(here, OwnProcess()), action(there, SparkUnits(spark, 2))
    assert content(found) == content(expected)
    found.analyze(executor=SparkUnits(spark))
    assert found.statistics.column("mergedRecordCount").to_pylist() == [len(content(found))]
    check_invariants(found)


def test_files_are_copied_and_orphans_deleted_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table, executor = made(tmp_path, "keys"), SparkUnits(spark)
    copy = copy_table(table, Catalog(str(tmp_path)), "shop.copy", executor)
    assert content(copy) == content(table)
    bucket = next(Path(table.path).rglob("bucket-0"))
    for number in range(3):
        (bucket / f"data-{number}.parquet").write_bytes(b"left behind")
        os.utime(bucket / f"data-{number}.parquet", (1, 1))
    assert len(table.remove_orphan_files(older_than="2000-01-01 00:00:00", executor=executor)) == 3
    assert content(copy) == content(table)
    check_invariants(table)


def test_an_error_of_a_unit_comes_back_as_it_was_raised(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="unit 3 is refused") as raised:
        list(SparkUnits(spark).run(refused, [Number(3)]))
    assert raised.value.facts == {"table": "shop.orders"}
    assert raised.value.hint == "mend it"
    assert list(SparkUnits(spark).run(refused, [])) == []


def test_parallelism_is_the_number_of_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, "keys")
    tracker = spark.sparkContext.statusTracker()
    for parallelism, tasks in ((1, 1), (3, 3), (50, 6)):  # six buckets
        with_options = {"compaction.force-rewrite-all-files": "true"}
        spark.sparkContext.setJobGroup(f"units-{parallelism}", "compaction")
        assert len(table.compact(options=with_options, executor=SparkUnits(spark, parallelism))) == 1
        (job,) = tracker.getJobIdsForGroup(f"units-{parallelism}")
        stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
        assert [stage.numTasks for stage in stages] == [tasks]


def test_a_command_beside_a_session_uses_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table: Table = made(tmp_path, "keys")
    before = content(table)
    spark.sparkContext.setJobGroup("command", "compaction")
    words = ["--warehouse", str(tmp_path), "--database", "shop", "--table", "orders", "--parallelism", "2", "--json"]
    assert main(["compact", *words]) == 0
    assert json.loads(capsys.readouterr().out) == {"snapshots": [7]}
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("command")) == 1
    assert content(table) == before


def killed(unit: Number) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return unit.value


def test_workers_that_are_killed_each_time_are_named(spark: SparkSession) -> None:
    with pytest.raises(TasksLost, match="Python processes of its tasks were lost") as caught:
        list(SparkUnits(spark).run(killed, [Number(1)]))
    assert "exited unexpectedly" in str(caught.value.facts["reason"])


def test_a_merge_beside_a_session_runs_on_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = Catalog(str(tmp_path))
    catalog.create_database("shop")
    for name, rows in (("orders", [(1, "a"), (2, "b"), (3, "c")]), ("news", [(1, "paid"), (2, None), (7, "new")])):
        columns = [("id", "INT"), ("n", "INT NOT NULL"), ("v", "STRING")]
        made = catalog.create_table(f"shop.{name}", columns, ["id"], options={"bucket": "2"})
        with made.writer() as writer:
            writer.write(
                pa.table({"id": [row[0] for row in rows], "n": [5] * len(rows), "v": [row[1] for row in rows]})
            )
            writer.commit()
    place = ["merge-into", "--warehouse", str(tmp_path), "--database", "shop", "--table", "orders", "--json"]
    flags = ["--source-sql", "CREATE OR REPLACE TEMPORARY VIEW s AS SELECT * FROM news", "--source-table", "s"]
    flags += ["--on", "orders.id = s.id", "--merge-actions", "matched-upsert,matched-delete,not-matched-insert"]
    flags += ["--matched-upsert-set", "v = upper(s.v)", "--matched-upsert-condition", "s.v IS NOT NULL"]
    flags += ["--not-matched-insert-values", "*", "--parallelism", "3"]
    before, tasks = spark.catalog.currentCatalog(), spark.conf.get(PARTITIONS)
    assert main([*place, *flags, "--matched-delete-condition", "s.v IS NULL OR s.id = 1"]) == 2
    assert "several actions, would change one row" in capsys.readouterr().err
    assert main([*place, *flags, "--matched-delete-condition", "s.v IS NULL"]) == 0
    assert json.loads(capsys.readouterr().out) == {"snapshots": [2]}
    table = catalog.table("shop.orders")
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "n": 5, "v": "PAID"},
        {"id": 3, "n": 5, "v": "c"},
        {"id": 7, "n": 5, "v": "new"},
    ]
    assert (spark.catalog.currentCatalog(), spark.conf.get(PARTITIONS)) == (before, tasks)
    check_invariants(table)
