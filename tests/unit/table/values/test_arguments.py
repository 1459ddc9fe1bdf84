"""Arguments of public functions: numbers of numpy are numbers, and what is none is refused by its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.values.arguments import epoch_millis, optional_whole_number, whole_number


@pytest.mark.parametrize("value", [True, np.True_, 2.0, np.float64(2), "2", np.array([2]), None])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="n is a whole number, not"):
        whole_number(value, "n")


def test_whole_numbers_of_numpy_become_numbers_of_python() -> None:
    assert type(whole_number(np.int64(2), "n")) is type(whole_number(np.uint8(2), "n")) is int
    assert type(epoch_millis(np.int64(2), "n")) is int
    assert optional_whole_number(None, "n") is None
    with pytest.raises(ConfigError, match=r"epoch milliseconds, not 2\.0"):
        epoch_millis(2.0, "n")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("id", "INT NOT NULL")], primary_keys=["id"], options={"bucket": "1"})
    with table.writer(commit_user="u") as writer:
        for number in (1, 2, 3):
            writer.write(pa.table({"id": pa.array([number], pa.int32())}))
            writer.commit(np.int64(number))
    return table


@pytest.mark.slow
def test_ids_that_numpy_has_made_are_ids(table: Table) -> None:
    two = np.int64(2)
    assert table.scan(snapshot=two).to_arrow().num_rows == 2
    assert table.head(two).num_rows == 2
    assert table.changes(np.int64(1), two).num_rows == 1
    assert next(iter(table.follow(from_snapshot=two))).snapshot == 2
    table.create_tag("a", two, retain_millis=np.int64(60_000))
    table.replace_tag("a", np.int64(1), retain_millis=np.int64(60_000))
    table.reset_consumer("c", two)
    assert table.consumers == {"c": 2}
    table.reset_consumer("c")
    assert table.rollback_to(two).id == 2


@pytest.mark.parametrize("value", [2.5, "2"])
def test_a_consumer_has_a_whole_number(table: Table, value: object) -> None:
    with pytest.raises(ConfigError, match="next_snapshot is a whole number"):
        table.reset_consumer("c", value)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="snapshot is a whole number"):
        table.create_tag("b", value)  # type: ignore[arg-type]
