"""The checks of a story read rows again as soon as anything that the rows come from has changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from tests.simulation.playing import PATH
from tests.simulation.store import SimStore, never
from tests.simulation.story import Story
from tests.stories.actor import Actor
from tests.stories.performance import Performance
from tests.stories.remembered_reads import RememberedReads

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING")]
ONE = {"op": "write", "columns": ["k", "v"], "rows": [["+I", 1, "a"]]}
TWO = {"op": "write", "columns": ["k", "v"], "rows": [["+I", 1, "b"]]}
NO_COMPACTION = {"bucket": "1", "write-only": "true"}


def played(*steps: dict[str, object]) -> Performance:
    return Performance(Story(COLUMNS, ["k"], steps, NO_COMPACTION)).run()


def write(told: Performance, step: dict[str, object], number: int) -> None:
    actor = Actor("main", told.disk, f"later {number}", never, [])
    actor.perform({"op": "write", "rows": step["rows"]}, number, lambda _: False)


def read(told: Performance, reads: RememberedReads) -> pa.Table:
    return reads.of_scan(Table(TableStore.open(SimStore(told.disk), PATH)).scan())


def test_rows_of_an_unchanged_table_are_read_once() -> None:
    told = played(ONE)
    reads = RememberedReads(told.disk)
    assert read(told, reads) is read(told, reads)


def test_rows_are_read_again_after_a_commit() -> None:
    told = played(ONE)
    reads = RememberedReads(told.disk)
    assert read(told, reads).to_pylist() == [{"k": 1, "v": "a"}]
    write(told, TWO, 100)
    assert read(told, reads).to_pylist() == [{"k": 1, "v": "b"}]


@pytest.mark.parametrize("kind", ["data-", "schema-0"])
def test_rows_are_read_again_after_a_file_was_replaced(kind: str) -> None:
    told = played(ONE)
    reads = RememberedReads(told.disk)
    before = read(told, reads)
    (path,) = (path for path in told.disk.files if path.rpartition("/")[2].startswith(kind))
    told.disk.put(path, told.disk.files[path][0])
    again = read(told, reads)
    assert again is not before
    assert again.equals(before)


def test_a_lost_data_file_is_noticed_although_its_rows_are_remembered() -> None:
    told = played(ONE)
    reads = RememberedReads(told.disk)
    read(told, reads)
    (path,) = (path for path in told.disk.files if path.rpartition("/")[2].startswith("data-"))
    told.disk.remove(path)
    with pytest.raises(Exception, match="a data file is missing"):
        read(told, reads)
