"""Maintenance beside the batches: a table is maintained as often as it has something to expire."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipelines.driver.maintenance import Maintenance
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.operations.write import TableWriter

LIMITS = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.expire.limit": "3"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table of ten snapshots. Nine may expire, three in each round."""
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("ods")
    table = catalog.create_table("ods.t", [("id", "INT")], options=LIMITS)
    put(table, 10)
    return table


def put(table: Table, commits: int) -> None:
    """Commit so often. As in a pipeline, the writer itself expires nothing."""
    for number in range(commits):
        with TableWriter.open(table.store, None) as writer:
            writer.write(pa.table({"id": pa.array([number], pa.int32())}))
            writer.commit()


def left(table: Table) -> int:
    return len(table.snapshots)


def test_a_table_with_more_to_expire_than_the_limit_has_the_next_round_at_once(table: Table, tmp_path: Path) -> None:
    """With a commit a second, a minute adds 60 snapshots; 50 of them expired, so that their number grew without end."""
    now = 0.0
    care = Maintenance(CatalogSettings.of(str(tmp_path), {}), lambda: ["ods.t"], lambda: "job", clock=lambda: now)
    for expected in (7, 4, 1):
        care.maintain()
        assert left(table) == expected
    # The last round had its limit too. The next one has nothing to do, and the table is left alone for a minute.
    care.maintain()
    put(table, 2)
    care.maintain()
    assert left(table) == 3
    now = 60.0
    care.maintain()
    assert left(table) == 1
