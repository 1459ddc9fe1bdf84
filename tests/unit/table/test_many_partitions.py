"""The cost of an operation grows with the number of partitions, not with its square."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.sql.interpreter import sql
from tests.unit.table.tables import rows
from tests.unit.table.test_many_columns import always_dearer, spent

FEW, MANY = 30, 300


def table_with(folder: Path, count: int) -> tuple[str, Table]:
    warehouse = str(folder / str(count))
    catalog = Catalog(warehouse)
    catalog.create_database("d")
    columns = [("part", "INT NOT NULL"), ("kind", "STRING NOT NULL"), ("id", "INT NOT NULL")]
    keys = ["part", "kind"]
    table = catalog.create_table(
        "d.t", columns, primary_keys=[*keys, "id"], partition_keys=keys, options={"bucket": "1", "write-only": "true"}
    )
    some = rows(table, *((part, "a", 0) for part in range(count)))
    for _ in range(2):
        with table.writer() as writer:
            writer.write(some)
            writer.commit()
    return warehouse, table


def costs(folder: Path, count: int) -> dict[str, float]:
    """Return the CPU seconds of each operation on all partitions."""
    warehouse, table = table_with(folder, count)
    named = [{"part": part, "kind": "a"} for part in range(count)]
    dropped = ", ".join(f"PARTITION (part = {part})" for part in range(count // 2))
    return {
        "list": spent(lambda: sql("SHOW PARTITIONS d.t", warehouse=warehouse)),
        "mark done": spent(lambda: table.mark_partitions_done(named)),
        "compact": spent(lambda: table.compact(full=True, partitions=named)),
        "drop in SQL": spent(lambda: sql(f"ALTER TABLE d.t DROP {dropped}", warehouse=warehouse)),
        "drop": spent(lambda: table.refresh().drop_partitions(named)),
    }


@pytest.mark.slow
def test_the_cost_grows_with_the_number_of_partitions(tmp_path: Path) -> None:
    """Ten times as many partitions cost ten times as much; a square would be a hundred times."""

    def dearer() -> dict[str, float]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        few, many = costs(folder, FEW), costs(folder, MANY)
        # The first call of SQL also imports modules, so that times below are those of a few milliseconds at least.
        return {name: many[name] / few[name] for name in few if many[name] > 30 * max(few[name], 0.01)}

    assert always_dearer(dearer) == {}
