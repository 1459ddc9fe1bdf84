"""A repair of a Hive metastore in which each request to the metastore and to the store fails in turn."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StoreError
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.hive_catalog import HiveCatalog
from penstock.table.handle import Table
from penstock.table.metastore.hive_client import NameMissing
from penstock.table.metastore.hive_objects import new_table
from tests.unit.table.catalog.test_hive_catalog import Metastore

OF_METASTORE = (
    "tables", "database", "table", "location", "create", "alter", "partition_names", "add_partitions", "drop_partition",
)  # fmt: skip
OF_STORE = ("read", "exists", "list", "size", "create", "write", "delete", "mkdirs")
COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("day", "STRING")]
STATES = ("no entry", "old entry", "old place")


class Partitioned(Metastore):
    """A metastore that also has the partitions of its tables, by the names of their folders."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.partitions: dict[str, set[str]] = {}

    def alter(self, database: str, table: str, described: Any) -> None:
        # In one step, unlike the method of the parent: this is one request.
        self.entries[f"{database}.{table}"] = described

    def partition_names(self, database: str, table: str) -> set[str]:
        return set(self.partitions.get(f"{database}.{table}", ()))

    def add_partitions(self, database: str, table: str, described: list[Any]) -> None:
        names = {partition.sd.location.rpartition("/")[2] for partition in described}
        self.partitions[f"{database}.{table}"] = self.partition_names(database, table) | names

    def drop_partition(self, database: str, table: str, folder: str) -> None:
        self.partitions[f"{database}.{table}"].discard(folder)

    def told(self) -> dict[str, Any]:
        return {
            name: (entry.sd.location, [column.name for column in entry.sd.cols], entry.parameters, self.partitions)
            for name, entry in self.entries.items()
        }


class Requests:
    """Counts requests. The request `fails_at` has no answer: the request is lost, or, if it is `done`, its answer."""

    def __init__(self, fails_at: int = 0, *, done: bool = False) -> None:
        self.count, self.fails_at, self.done = 0, fails_at, done

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def asked(*values: Any, **named: Any) -> Any:
            self.count += 1
            if self.count != self.fails_at:
                return call(*values, **named)
            if self.done:
                with contextlib.suppress(FileNotFoundError, NameMissing):  # this answer is lost too
                    call(*values, **named)
            raise StoreError("no answer")

        return asked

    @contextlib.contextmanager
    def on(self, metastore: Partitioned) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            for name in OF_METASTORE:
                patched.setattr(metastore, name, self.counted(getattr(metastore, name)))
            for name in OF_STORE:
                patched.setattr(LocalStorage, name, self.counted(getattr(LocalStorage, name)))
            yield


def a_table(folder: Path) -> Table:
    """Return the table shop.orders with two partitions."""
    catalog = Catalog(folder, {"local.sync": "false"})
    catalog.create_database("shop")
    options = {"metastore.partitioned-table": "true"}
    table = catalog.create_table("shop.orders", COLUMNS, [], ["day"], options)
    with table.writer() as writer:
        writer.write(pa.table({"id": [1, 2], "v": ["a", "b"], "day": ["1", "2"]}, schema=table.schema))
        writer.commit()
    return table


def metastore_in(state: str, folder: Path, table: Table) -> Partitioned:
    """Return a metastore that differs from the table in this way."""
    made = Partitioned(folder)
    if state == "no entry":
        return made
    # A rename moves the folder to its new name, and ended before it entered the new place.
    place = "orders" if state == "old entry" else "former"
    entry = new_table("shop", "orders", f"file:{folder}/shop.db/{place}", table.definition)
    if state == "old entry":
        entry.sd.cols.pop()
        entry.parameters["owner"] = "kept"
    made.create(entry)
    made.partitions["shop.orders"] = {"day=1"}
    return made


def lake(folder: Path, metastore: Partitioned) -> HiveCatalog:
    return HiveCatalog(str(folder), {"local.sync": "false"}, Environment(), metastore, None)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True], ids=["lost", "done"])
@pytest.mark.parametrize("state", STATES)
def test_a_repair_that_failed_at_any_request_succeeds_when_it_is_repeated(
    state: str, done: bool, tmp_path: Path
) -> None:
    table = a_table(tmp_path)
    expected = metastore_in(state, tmp_path, table)
    [repaired] = lake(tmp_path, expected).repair("shop")
    assert repaired.outcome == ("added" if state == "no entry" else "updated")
    assert expected.partitions == {"shop.orders": {"day=1", "day=2"}}
    files = sorted(tmp_path.rglob("*"))
    for number in itertools.count(1):
        metastore, requests = metastore_in(state, tmp_path, table), Requests(number, done=done)
        before = {entry.sd.location for entry in metastore.entries.values()}
        failed = repaired_at(tmp_path, metastore, requests)
        assert failed == (requests.count >= number), f"request {number} failed, and nothing was said"
        assert {entry.sd.location for entry in metastore.entries.values()} <= before | {f"file:{table.path}"}
        lake(tmp_path, metastore).repair("shop")
        assert metastore.told() == expected.told(), f"request {number}"
        assert sorted(tmp_path.rglob("*")) == files
        if not failed:
            break
    assert number > 10


def repaired_at(folder: Path, metastore: Partitioned, requests: Requests) -> bool:
    """Repair with these requests, and return whether that failed."""
    try:
        with requests.on(metastore):
            lake(folder, metastore).repair("shop")
    except StoreError:
        return True
    return False
