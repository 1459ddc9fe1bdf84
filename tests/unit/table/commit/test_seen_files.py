"""Tasks on machines with a copy of the table's folder: no file that only they see is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.table_write import TableWrite
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.operations.compaction_round import compact_round
from penstock.table.operations.executor import Executor, OfUnit, Result, Work

PLAIN, KEYED = "ods.plain", "ods.keyed"


class Elsewhere:
    """Runs units on a machine with a copy of the warehouse: what they write is not on this disk."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse

    def files(self) -> set[Path]:
        return set(self.warehouse.rglob("data-*")) | set(self.warehouse.rglob("index/index-*"))

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        before = self.files()
        results = list(map(work, units))
        for path in self.files() - before:
            path.unlink()
        yield from results


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(str(tmp_path))
    made.create_database("ods")
    columns = [("id", "BIGINT NOT NULL")]
    made.create_table(KEYED, columns, ["id"], options={"bucket": "1", "write-only": "true"})
    made.create_table(PLAIN, columns)
    for name in (PLAIN, KEYED):
        for number in range(3):
            with made.table(name).writer() as writer:
                writer.write(pa.table({"id": pa.array([number], pa.int64())}))
                writer.commit()
    return made


def compact_all(table: Table, executor: Executor) -> object:
    outcome = compact_round({table.name: table.store}, executor, full=True)[table.name]
    if outcome.error is not None:
        raise outcome.error
    return outcome


ACTIONS: dict[str, tuple[str, Callable[[Table, Executor], object]]] = {
    "compact": (KEYED, lambda table, executor: table.compact(full=True, executor=executor)),
    "round": (KEYED, compact_all),
    "rescale": (KEYED, lambda table, executor: table.rescale(2, executor=executor)),
    "delete": (PLAIN, lambda table, executor: table.delete(pc.field("id") == 1, executor=executor)),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_actions_do_not_commit_files_of_another_disk(catalog: Catalog, tmp_path: Path, action: str) -> None:
    name, act = ACTIONS[action]
    table = catalog.table(name)
    before = table.latest_snapshot
    if action == "delete":  # the file of all rows is written again
        table.compact(full=True)
        before = table.latest_snapshot
    with pytest.raises(ConfigError, match="not on the driver's disk") as caught:
        act(table, Elsewhere(tmp_path))
    assert caught.value.facts["table"] == name
    assert catalog.table(name).latest_snapshot == before
    assert sorted(catalog.table(name).scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_writes_of_spark_do_not_commit_files_of_another_disk(catalog: Catalog, tmp_path: Path) -> None:
    table, elsewhere = catalog.table(PLAIN), Elsewhere(tmp_path)
    write = TableWrite.of({"path": table.path}, overwrite=False)
    before = elsewhere.files()
    part = write.take(pa.table({"id": pa.array([7], pa.int64())}).to_batches(), "job")
    for path in elsewhere.files() - before:
        path.unlink()
    with pytest.raises(ConfigError, match="not on the driver's disk"):
        write.commit([part], "job", None, None)
    assert catalog.table(PLAIN).latest_snapshot == table.latest_snapshot
