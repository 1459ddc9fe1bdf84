"""Batches of streams: those that Spark repeats count once, and those of another checkpoint are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.spark_source.write import StreamWriter
from penstock.table.handle import Table


@pytest.fixture(params=["append", "keyed"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    keys, options = (["id"], {"bucket": "1"}) if request.param == "keyed" else ([], {})
    return catalog.create_table("d.t", [("id", "INT NOT NULL")], primary_keys=keys, options=options)


def take(table: Table, number: int, *ids: int, user: str = "etl") -> None:
    writer = StreamWriter({"path": table.path, "commit-user": user}, overwrite=False)
    rows = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int32())})
    writer.commit([writer.write(iter([rows]))], number)


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_a_repeated_batch_counts_once(table: Table) -> None:
    for number in (0, 1, 1, 2, 2):
        take(table, number, number)
    assert ids(table) == [0, 1, 2]


def test_batches_of_a_new_checkpoint_with_the_old_commit_user_are_refused(table: Table) -> None:
    """They were dropped in silence, as if the table had them."""
    for number in (0, 1):
        take(table, number, number)
    files = {path for path in Path(table.path).rglob("*") if path.is_file()}
    with pytest.raises(CheckpointMismatch, match="has a later batch of this stream") as refused:
        take(table, 0, 10)
    assert (refused.value.facts["batch"], refused.value.facts["newest_batch"]) == (0, 1)
    assert {path for path in Path(table.path).rglob("*") if path.is_file()} == files
    take(table, 0, 10, user="etl-2")
    assert ids(table) == [0, 1, 10]


def test_a_stream_has_no_commit_identifier_of_the_user(table: Table) -> None:
    with pytest.raises(ConfigError, match="numbered by its batches"):
        StreamWriter({"path": table.path, "commit-user": "etl", "commit-identifier": "7"}, overwrite=False)
