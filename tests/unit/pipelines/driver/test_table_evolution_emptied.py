"""Changes of whole tables at the source, applied between two batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.source import Barrier
from penstock.pipelines.driver.table_evolution import _empty, _others_in
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


SOURCES = {("shop", "east"): "dwd.all", ("shop", "west"): "dwd.all", ("shop", "users"): "ods.users"}
RENAMED = (("a", "b"),)


@pytest.mark.parametrize(
    ("barriers", "others"),
    [
        ([Barrier("truncate", "shop", "east")], "shop.west"),
        ([Barrier("drop", "shop", "west")], "shop.east"),
        ([Barrier("truncate", "shop", "east"), Barrier("drop", "shop", "west")], ""),
        ([Barrier("truncate", "shop", "east"), Barrier("truncate", "shop", "users")], "shop.west"),
        ([Barrier("read-again", "shop", "east")], ""),
        ([Barrier("rename-columns", "shop", "east", RENAMED)], "shop.west"),
        ([Barrier("rename-columns", "shop", name, RENAMED) for name in ("east", "west")], ""),
        (
            [
                Barrier("rename-columns", "shop", "east", RENAMED),
                Barrier("rename-columns", "shop", "west", (("a", "c"),)),
            ],
            "shop.west",
        ),
    ],
)
def test_a_shared_table_follows_only_what_happens_to_all_of_its_sources(barriers: list[Barrier], others: str) -> None:
    assert _others_in("dwd.all", barriers[0], barriers, SOURCES) == others
