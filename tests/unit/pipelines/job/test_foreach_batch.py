"""Whether the task that reads a small batch may write it too."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.job.foreach_batch import FEW_BUCKETS, has_few_buckets
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings

KEYED = [("id", "BIGINT NOT NULL"), ("day", "INT NOT NULL")]


def few(folder: Path, *tables: dict[str, str], partition_keys: tuple[str, ...] = ()) -> bool:
    catalog = Catalog(str(folder))
    catalog.create_database("shop")
    names = [f"shop.t{number}" for number in range(len(tables))]
    for name, options in zip(names, tables, strict=True):
        catalog.create_table(
            name, schema=KEYED, primary_keys=["id"], partition_keys=list(partition_keys), options=options
        )
    return has_few_buckets(CatalogSettings.of(str(folder), {}), dict.fromkeys(names, 0))


@pytest.mark.parametrize("buckets", [FEW_BUCKETS, FEW_BUCKETS + 1])
def test_the_buckets_of_all_tables_are_counted(tmp_path: Path, buckets: int) -> None:
    assert few(tmp_path, {"bucket": "1"}, {"bucket": str(buckets - 1)}) is (buckets == FEW_BUCKETS)


def test_tables_with_dynamic_buckets_count_as_several(tmp_path: Path) -> None:
    assert few(tmp_path / "a", *[{"bucket": "-1"}] * 4)
    assert not few(tmp_path / "b", *[{"bucket": "-1"}] * 5)


def test_batches_of_tables_that_need_a_certain_writer_are_shuffled(tmp_path: Path) -> None:
    assert not few(tmp_path / "postponed", {"bucket": "-2"})
    assert not few(tmp_path / "moving", {"bucket": "-1"}, partition_keys=("day",))
