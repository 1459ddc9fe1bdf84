"""Catalog.at: the snapshots of one batch over all tables of a pipeline, whatever is committed half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.table.commit.committer import Committer
from penstock.table.meta.snapshot import PARKED, PIPELINE, TABLES

OPTIONS = {"bucket": "1"}


@pytest.fixture
def catalog(tmp_path: Path) -> penstock.Catalog:
    made = penstock.Catalog(tmp_path / "warehouse")
    made.create_database("shop")
    for name in ("orders", "items", "users"):
        made.create_table(f"shop.{name}", [("id", "INT NOT NULL")], ["id"], options=OPTIONS)
    return made


def commit(
    catalog: penstock.Catalog,
    batch: int,
    *tables: str,
    of: int | None = None,
    user: str = "shop-1",
    pipeline: str = "shop",
    parked: tuple[str, ...] = (),
) -> None:
    """Commit a batch of a pipeline with one row, its number, to tables; `of` is how many tables the batch has."""
    for table in tables:
        handle = catalog.table(f"shop.{table}")
        writer = handle.writer(commit_user=user)
        with writer:
            writer.write(pa.table({"id": pa.array([batch], pa.int32())}))
            messages = writer.prepare()
            properties = {PIPELINE: pipeline, TABLES: str(of or len(tables))}
            properties |= {PARKED: json.dumps([f"shop.{name}" for name in parked])} if parked else {}
            Committer(handle.store, user).commit(messages, batch, properties=properties)


def ids(view: penstock.BatchView, table: str) -> list[int]:
    return sorted(view.scan(f"shop.{table}").to_arrow()["id"].to_pylist())


def test_tables_are_read_as_of_the_newest_batch_that_all_have(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders", "items")
    commit(catalog, 1, "orders", "items")
    commit(catalog, 2, "orders", of=2)  # the driver is about to commit items
    view = catalog.at()
    assert (view.pipeline, view.batch) == ("shop", 1)
    assert (ids(view, "orders"), ids(view, "items")) == ([0, 1], [0, 1])
    commit(catalog, 2, "items", of=2)
    assert catalog.at().batch == 2


def test_a_table_that_a_batch_did_not_change_is_read_as_of_its_last_change(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders", "items")
    commit(catalog, 1, "orders")
    commit(catalog, 2, "items")
    view = catalog.at(batch=1)
    assert (ids(view, "orders"), ids(view, "items")) == ([0, 1], [0])


def test_a_parked_table_is_named_until_it_has_its_batches(
    catalog: penstock.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    commit(catalog, 0, "orders", "items")
    commit(catalog, 1, "orders", parked=("items",))
    view = catalog.at()
    assert (view.batch, view.parked, ids(view, "items")) == (1, ("shop.items",), [0])
    assert "event=parked_table_in_view table=shop.items batch=1" in caplog.text
    assert catalog.at(batch=0).parked == ()
    commit(catalog, 1, "items")  # the batch that it had missed
    commit(catalog, 2, "orders")
    assert catalog.at(batch=1).parked == ()
    assert catalog.at().parked == ()


def test_a_table_that_is_newer_than_the_batch_is_not_in_the_view(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders")
    commit(catalog, 1, "orders", "users")
    view = catalog.at(batch=0)
    assert set(view.snapshots) == {"shop.orders"}
    with pytest.raises(penstock.ConfigError, match="no rows of this pipeline at batch 0"):
        view.scan("shop.users")


def test_rows_of_other_writers_after_the_batch_are_not_read(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders")
    with catalog.table("shop.orders").writer(commit_user="by hand") as writer:
        writer.write(pa.table({"id": pa.array([77], pa.int32())}))
        writer.commit(identifier=1)
    assert ids(catalog.at(), "orders") == [0]


def test_a_batch_that_is_not_complete_is_refused(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders", of=2)
    with pytest.raises(penstock.ConfigError, match="batch 0 of the pipeline is not complete"):
        catalog.at()
    with pytest.raises(penstock.ConfigError, match="batch 9 of the pipeline is not complete"):
        catalog.at(batch=9)


def test_batches_without_the_number_of_their_tables_are_complete_when_the_next_begins(
    catalog: penstock.Catalog,
) -> None:
    for batch in range(2):
        store = catalog.table("shop.orders").store
        Committer(store, "shop-1").commit([], batch, properties={PIPELINE: "shop"}, force_empty=True)
    assert catalog.at().batch == 0


def test_an_expired_batch_is_refused_with_the_table(catalog: penstock.Catalog) -> None:
    for batch in range(3):
        commit(catalog, batch, "orders")
    catalog.table("shop.orders").expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(penstock.SnapshotMissing, match="batch 0 has expired") as refused:
        catalog.at(batch=0)
    assert "shop.orders" in str(refused.value)


def test_an_expired_batch_that_a_tag_keeps_is_named_by_the_tag(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders")
    catalog.at().create_tags("first")
    for batch in range(1, 4):
        commit(catalog, batch, "orders")
    catalog.table("shop.orders").expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(penstock.SnapshotMissing) as refused:
        catalog.at(batch=1)
    assert refused.value.hint == "read the table by its tag, which has it after batch 0: scan(tag='first')"
    assert catalog.table("shop.orders").scan(tag="first").to_arrow()["id"].to_pylist() == [0]


@pytest.mark.parametrize("batch", [-1, "1"])
def test_what_is_no_number_of_a_batch_is_refused(catalog: penstock.Catalog, batch: Any) -> None:
    commit(catalog, 0, "orders")
    with pytest.raises(penstock.ConfigError, match="is not the number of a batch"):
        catalog.at(batch=batch)


def test_a_number_of_numpy_is_the_number_of_a_batch(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders")
    number: Any = np.int64(0)
    assert ids(catalog.at(batch=number), "orders") == [0]


def test_a_new_checkpoint_counts_its_batches_from_zero(catalog: penstock.Catalog) -> None:
    for batch in range(5):
        commit(catalog, batch, "orders", "items")
    commit(catalog, 0, "orders", user="shop-2")
    view = catalog.at()
    assert view.batch == 0
    assert (ids(view, "orders"), ids(view, "items")) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_the_pipeline_is_named_where_several_wrote(catalog: penstock.Catalog) -> None:
    commit(catalog, 3, "orders")
    commit(catalog, 4, "users", pipeline="crm", user="crm-1")
    commit(catalog, 3, "items", pipeline="shop.late.items", user="shop.late.items-1")
    with pytest.raises(penstock.ConfigError, match="which pipeline's batch") as refused:
        catalog.at()
    assert "crm, shop" in str(refused.value)
    assert catalog.at(pipeline="crm").batch == 4
    with pytest.raises(penstock.ConfigError, match="pipeline 'cmr' wrote no table"):
        catalog.at(pipeline="cmr")


def test_a_warehouse_without_pipelines_says_so(catalog: penstock.Catalog) -> None:
    with pytest.raises(penstock.ConfigError) as refused:
        catalog.at()
    assert "no pipeline wrote into this warehouse" in str(refused.value)


def test_the_time_is_kept_as_tags_of_all_tables_or_no_table(catalog: penstock.Catalog) -> None:
    commit(catalog, 0, "orders", "items")
    view = catalog.at()
    view.create_tags("noon")
    view.create_tags("noon")
    assert [catalog.table(f"shop.{name}").tags for name in ("orders", "items")] == [{"noon": 1}] * 2
    catalog.table("shop.orders").create_tag("evening", 1)
    commit(catalog, 1, "orders", "items")
    with pytest.raises(penstock.ConfigError, match="evening"):
        catalog.at().create_tags("evening")
    assert "evening" not in catalog.table("shop.items").tags
