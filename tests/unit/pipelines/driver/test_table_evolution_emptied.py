"""Changes of whole tables at the source, applied between two batches."""

from __future__ import annotations

from pathlib import Path

from penstock.pipelines.driver.table_evolution import _empty
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("id", "INT NOT NULL"), ("v", "INT")]


def test_a_table_is_emptied_once_for_a_batch(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, keys=("id",), options={"bucket": "1"})
    batch = BatchIdentity("shop", "a-checkpoint", 3, {"file": 1}, {"file": 2})
    for number in (1, 2):
        with table.writer("other") as writer:
            writer.write(rows(table, (number, number)))
            writer.commit(number)
        _empty(table.store, batch)
    assert content(table) == [(2, 2)]
    assert table.snapshots[1].properties == batch.properties
