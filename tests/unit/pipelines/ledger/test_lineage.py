"""Where a new checkpoint begins over tables that older ones wrote: by the numbers of batches, not by the clock."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.lineage import Lineage
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.committer import Committer
from penstock.table.schema.new_schema import create_schema


class Warehoused:
    """Tables whose clock is ours."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = CatalogSettings.of(str(folder), {"local.sync": "false"})
        self.clock = 10_000_000
        for table in ("d.a", "d.b"):
            self.warehouse.created(table, create_schema([("id", "INT")], options={"bucket": "-1"}, now=1))
            store = self.warehouse.store(table)
            object.__setattr__(store, "ambient", replace(store.ambient, now_millis=lambda: self.clock))

    def commit(self, checkpoint: str, number: int, *tables: str) -> BatchIdentity:
        made = BatchIdentity("p", checkpoint, number, {"t": {"0": number}}, {"t": {"0": number + 1}})
        for table in tables:
            store = self.warehouse.store(table)
            Committer(store, made.user).commit([], made.number, properties=made.properties, force_empty=True)
        return made

    def resumed(self) -> dict[str, object]:
        return dict(Lineage.of(self.warehouse, ["d.a", "d.b"], "p").last().end)


def test_a_clock_that_went_back_hides_no_batch(tmp_path: Path) -> None:
    here = Warehoused(tmp_path)
    here.commit("one", 5, "d.a", "d.b")
    here.clock -= 3_600_000
    last = here.commit("one", 6, "d.b")
    assert here.resumed() == last.end


def test_of_several_checkpoints_the_last_counts_whatever_the_clock_and_the_numbers(tmp_path: Path) -> None:
    for number, (back, tables) in enumerate(itertools.product((0, 3_600_000), (("d.a",), ("d.b",), ("d.a", "d.b")))):
        here = Warehoused(tmp_path / str(number))
        here.commit("one", 7, "d.a", "d.b")
        here.clock += 1000 - back
        last = here.commit("two", 0, *tables)
        assert here.resumed() == last.end, number
