"""Tokens for the files of tables: they are used, and renewed before they expire."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.catalog import rest_storage
from penstock.table.catalog.rest_storage import TokenStorage
from tests.rest_server import RestCatalogServer, running

HOUR = 3_600_000


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[RestCatalogServer, dict[str, str]]]:
    with running(tmp_path / "files") as (server, options):
        server.defaults = {"data-token.enabled": "true"}
        yield server, options


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def tokens(server: RestCatalogServer) -> int:
    return sum(path.endswith("/token") for _, path, _ in server.requests)


def token(number: int, expires: int) -> dict[str, Any]:
    return {"token": {"s3.access-key": f"key-{number}", "unknown": "ignored"}, "expiresAtMillis": expires}


@pytest.mark.slow
def test_a_token_is_used_and_renewed_in_time(
    lake: tuple[RestCatalogServer, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, options = lake
    clock = Clock()
    server.data_tokens = [token(1, clock.now + 10 * HOUR), token(2, clock.now + 20 * HOUR)]
    opened: list[dict[str, str]] = []

    def open_storage(url: str, given: dict[str, str]) -> tuple[LocalStorage, str]:
        opened.append(given)
        return LocalStorage(sync=False), url.removeprefix("file:")

    monkeypatch.setattr(rest_storage, "open_storage", open_storage)
    catalog = penstock.Catalog("lake", {**options, "s3.region": "here"}, ambient=Environment(now_millis=clock))
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", [("id", "INT")], options={"bucket": "-1"})
    assert isinstance(table.store.storage, TokenStorage)
    assert table.schema.names == ["id"]
    assert opened == [{"s3.region": "here", "s3.access-key": "key-1"}]
    clock.now += 9 * HOUR - 1
    assert table.refresh().schema.names == ["id"]
    assert tokens(server) == 1
    clock.now += 1
    assert table.refresh().schema.names == ["id"]
    assert table.refresh().schema.names == ["id"]
    assert tokens(server) == 2
    assert opened[1]["s3.access-key"] == "key-2"


@pytest.mark.slow
def test_a_short_token_is_used_for_half_of_its_time(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    server, options = lake
    clock = Clock()
    server.data_tokens = [token(1, clock.now + 600_000)]
    catalog = penstock.Catalog("lake", options, ambient=Environment(now_millis=clock))
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", [("id", "INT")])
    for _ in range(3):
        table.refresh()
    assert tokens(server) == 1
    clock.now += 300_000
    table.refresh()
    assert tokens(server) == 2


class Bucket(LocalStorage):
    """A local folder under the addresses of an object store."""

    url_prefix = "s3://bucket"


@pytest.mark.slow
def test_iceberg_metadata_names_the_bucket_of_files(
    lake: tuple[RestCatalogServer, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, options = lake
    server.data_tokens = [token(1, 1 << 50)]
    monkeypatch.setattr(
        rest_storage, "open_storage", lambda url, given: (Bucket(sync=False), url.removeprefix("file:"))
    )
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    table = catalog.create_table(
        "shop.orders", [("id", "INT")], options={"bucket": "-1", "metadata.iceberg.storage": "table-location"}
    )
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32())}))
        writer.commit()
    [metadata] = Path(table.path, "metadata").glob("v*.metadata.json")
    assert json.loads(metadata.read_text())["location"] == f"s3://bucket{table.path}"


@pytest.mark.slow
def test_every_request_for_files_uses_the_store_of_the_token(
    lake: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    server, options = lake
    server.data_tokens = [token(1, 1 << 50)]
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", [("id", "INT")])
    storage, folder = table.store.storage, f"{table.path}/of-the-test"
    sent = pickle.dumps(storage)
    assert b"key-1" not in sent
    again = pickle.loads(sent)
    assert again.create(f"{folder}/a", b"one")
    assert not again.create(f"{folder}/a", b"two")
    storage.write(f"{folder}/b", b"three")
    assert (storage.read(f"{folder}/a"), storage.read_range(f"{folder}/b", 1, 2)) == (b"one", b"hr")
    assert (storage.size(f"{folder}/b"), storage.exists(f"{folder}/c"), storage.longest_name) == (5, False, 255)
    assert sorted(entry.name for entry in storage.list(folder)) == ["a", "b"]
    assert sorted(entry.name for entry in storage.walk(folder)) == ["a", "b"]
    with storage.open_output(f"{folder}/c") as out:
        out.write(b"four")
    with storage.open_input(f"{folder}/c") as file:
        assert file.read() == b"four"
    storage.rename_tree(folder, f"{folder}-2")
    storage.delete(f"{folder}-2/a")
    storage.mkdirs(f"{folder}-2/d")
    assert sorted(entry.name for entry in storage.list(f"{folder}-2")) == ["b", "c", "d"]
    storage.delete_tree(f"{folder}-2")
    assert storage.list(f"{folder}-2") == []


@pytest.mark.slow
def test_a_server_without_tokens_is_an_error(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    server, options = lake
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    with pytest.raises(ConfigError, match="no tokens are issued"):
        catalog.create_table("shop.orders", [("id", "INT")])
    server.data_tokens = [{"token": None}]
    with pytest.raises(StoreError, match="issued no token"):
        catalog.table("shop.orders")
