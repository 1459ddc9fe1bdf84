from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.pipelines.tasks.router import UNASSIGNED, Router, own_number
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.unit.table.tables import new_table, rows


def warehouse(folder: Path) -> CatalogSettings:
    return CatalogSettings.of(f"{folder}/warehouse", {})


def batch(table: Table, *ids: int) -> pa.RecordBatch:
    return rows(table, *((id_, "x", None) for id_ in ids)).to_batches()[0]


def test_a_bucket_has_one_writer_and_writers_share_the_buckets(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "8"})
    router = Router(warehouse(tmp_path), "shop.orders", TargetVersion(0), 4)
    first = {part.bucket: part.writer for part in router.parts(batch(table, *range(200)), 0)}
    again = {part.bucket: part.writer for part in router.parts(batch(table, *range(200, 400)), 1)}
    assert first == again
    assert sorted(np.bincount(list(first.values())).tolist()) == [2, 2, 2, 2]


def test_tables_of_one_bucket_are_spread_over_the_writers(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    router = Router(warehouse(tmp_path), "shop.orders", TargetVersion(0), 4)
    writers = set()
    for number in range(50):
        router._salt = number * 7919
        writers |= {part.writer for part in router.parts(batch(table, 1), 0)}
    assert writers == {0, 1, 2, 3}


@pytest.mark.slow
@given(st.lists(st.integers(0, 500), min_size=1, max_size=80, unique=True), st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
def test_new_keys_of_dynamic_buckets_have_one_writer_and_known_ones_their_bucket(
    tmp_path_factory: object, ids: list[int], writers: int
) -> None:
    folder = tmp_path_factory.mktemp("dynamic")  # type: ignore[attr-defined]
    table = new_table(folder, options={"bucket": "-1", "dynamic-bucket.target-row-num": "7"})
    old = ids[: len(ids) // 2]
    if old:
        with table.writer(commit_user="u") as writer:
            writer.write(rows(table, *((item, "x", None) for item in old)))
            writer.commit(1)
    version = TargetVersion(0, table.store.snapshots.latest_id() or 0)
    router = Router(warehouse(folder), "shop.orders", version, writers)
    seen: dict[int, tuple[int, int]] = {}
    for part in router.parts(batch(table, *ids), 0):
        for row in part.rows:
            seen[ids[int(row)]] = (part.bucket, part.writer)
    assert set(seen) == set(ids)
    assert all((seen[item][0] == UNASSIGNED) == (item not in old) for item in ids)
    for bucket, writer in seen.values():
        assert 0 <= writer < writers
        if bucket != UNASSIGNED:
            assert bucket % writers == own_number("shop.orders", writer, writers)


@pytest.mark.parametrize("limit", ["initial", "max"])
def test_a_new_partition_opens_buckets_up_to_the_limit(tmp_path: Path, limit: str) -> None:
    table = new_table(tmp_path, options={"bucket": "-1", f"dynamic-bucket.{limit}-buckets": "2"})
    router = Router(warehouse(tmp_path), "shop.orders", TargetVersion(0, 0), 4)
    writers = {part.writer for part in router.parts(batch(table, *range(200)), 0)}
    assert {own_number("shop.orders", writer, 4) for writer in writers} == {0, 1}
