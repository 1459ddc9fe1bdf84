"""Iceberg metadata in an object store: publication, deletion of what expired, and readers that begin at its URI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

import penstock
from penstock.table.handle import Table
from tests.iceberg import VECTORS, ordered
from tests.servers import s3

pytestmark = pytest.mark.slow
COLUMNS = [("id", "BIGINT NOT NULL"), ("v", "STRING"), ("dt", "STRING")]


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The options of a store with the bucket `lake`, which exists."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    s3.create_bucket(endpoint)
    yield {
        "s3.endpoint": endpoint,
        "s3.access-key": s3.ACCESS_KEY,
        "s3.secret-key": s3.SECRET_KEY,
        "s3.region": "us-east-1",
        "s3.path.style.access": "true",
    }
    server.stop()


def created(store: dict[str, str], name: str, keys: tuple[str, ...] = (), **more: str) -> Table:
    lake = penstock.Catalog("s3://lake/warehouse", store)
    lake.create_database("shop", ignore_if_exists=True)
    options = {"metadata.iceberg.storage": "hadoop-catalog", "metadata.iceberg.manifest-compression": "gzip", **more}
    return lake.create_table(f"shop.{name}", COLUMNS, keys, () if keys else ["dt"], options)


def put(table: Table, *ids: int) -> None:
    table = table.refresh()
    with table.writer() as writer:
        rows = {"id": ids, "v": [f"v{number}" for number in ids], "dt": [f"d{number % 2}" for number in ids]}
        writer.write(pa.table(rows, schema=table.schema))
        writer.commit()


def opened(store: dict[str, str], name: str) -> Any:
    """The table as pyiceberg opens it, by the store's client of Arrow."""
    # Imported here: pyiceberg looks for snappy, which tests.iceberg provides, when it is imported.
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.table import StaticTable

    settings = {
        "s3.endpoint": store["s3.endpoint"],
        "s3.access-key-id": s3.ACCESS_KEY,
        "s3.secret-access-key": s3.SECRET_KEY,
        "s3.region": "us-east-1",
        "s3.force-virtual-addressing": "false",
    }
    folder = f"s3://lake/warehouse/iceberg/shop/{name}/metadata"
    hint = PyArrowFileIO(settings).new_input(f"{folder}/version-hint.text").open().read().decode()
    return StaticTable.from_metadata(f"{folder}/v{hint}.metadata.json", settings)


def names(store: dict[str, str], name: str) -> list[str]:
    """The files of the metadata folder."""
    table = penstock.Catalog("s3://lake/warehouse", store).table(f"shop.{name}")
    return sorted(entry.name for entry in table.store.storage.list(f"/warehouse/iceberg/shop/{name}/metadata"))


def test_commits_are_read_by_their_uris_and_expired_metadata_is_deleted(store: dict[str, str]) -> None:
    table = created(store, "orders")
    for number in range(4):
        put(table, number, number + 11)
        shown = opened(store, "orders")
        assert ordered(shown.scan().to_arrow()) == ordered(table.refresh().scan().to_arrow())
    assert shown.location() == "s3://lake/warehouse/shop.db/orders"
    files = [task.file.file_path for task in shown.scan(row_filter="dt = 'd1'").plan_files()]
    assert len(files) == 4
    assert all(file.startswith("s3://lake/warehouse/shop.db/orders/dt=d1/") for file in files)
    assert [name for name in names(store, "orders") if name.endswith(".json")] == ["v4.metadata.json"]
    table.refresh().create_tag("kept", snapshot=2)
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    put(table, 99)
    shown = opened(store, "orders")
    assert [snapshot.snapshot_id for snapshot in shown.metadata.snapshots] == [2, 4, 5]
    lists = [snapshot.manifest_list.rpartition("/")[2] for snapshot in shown.metadata.snapshots]
    assert [name for name in names(store, "orders") if name.startswith("snap-")] == sorted(lists)
    assert sorted(shown.scan(snapshot_id=2).to_arrow()["id"].to_pylist()) == [0, 1, 11, 12]


def test_deletion_vectors_are_read_from_the_store(store: dict[str, str]) -> None:
    table = created(store, "keyed", ("id",), bucket="1", **VECTORS)
    for numbers in ((1, 2, 3), (2, 4)):
        put(table, *numbers)
        table.refresh().compact()
    table.refresh().delete("id = 3")
    table.refresh().compact()
    assert sorted(opened(store, "keyed").scan().to_arrow()["id"].to_pylist()) == [1, 2, 4]
    assert ordered(opened(store, "keyed").scan().to_arrow()) == ordered(table.refresh().scan().to_arrow())
