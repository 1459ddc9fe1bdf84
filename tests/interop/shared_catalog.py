"""One catalog that Java Paimon and Penstock have open, and what both do with its tables, for each kind of catalog."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.table.handle import Table
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.invariants import check_invariants
from tests.waiting import ended

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
ROW_TYPE = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())])


@dataclass(frozen=True)
class SharedCatalog:
    """A warehouse that both open with the same options."""

    oracle: Oracle
    warehouse: str
    options: dict[str, str]

    @property
    def ours(self) -> penstock.Catalog:
        return penstock.Catalog(self.warehouse, self.options)

    def java(self, op: str, **arguments: Any) -> Any:
        return self.oracle.ask(op, warehouse=self.warehouse, catalog_options=self.options, **arguments)

    def java_rows(self, table: str) -> list[Any]:
        return sorted(self.java("read", table=table)["rows"])


def put(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": list(ids), "v": [str(id_) for id_ in ids]}, schema=ROW_TYPE))
        writer.commit()


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def check_we_use_a_table_of_java(lake: SharedCatalog) -> None:
    """Check that we read, write, alter, rename and drop a table that Java created."""
    lake.java("create", table="shop.orders", columns=COLUMNS, pk=["id"], options={"bucket": "1"})
    lake.java("write", table="shop.orders", rows=[["+I", 1, "java"]])
    ours = lake.ours
    assert ours.tables("shop") == ["orders"]
    put(ours.table("shop.orders"), 2)
    ours.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert lake.java_rows("shop.orders") == [[1, "java", None], [2, "2", None]]
    ours.rename_table("shop.orders", "shop.sales")
    assert lake.java("tables")["tables"] == ["shop.sales"]
    check_invariants(ours.table("shop.sales"), oracle=lake.oracle)
    ours.drop_table("shop.sales")
    with pytest.raises(JavaRefused, match=r"shop\.sales"):
        lake.java("read", table="shop.sales")


def check_java_uses_a_table_of_ours(lake: SharedCatalog) -> None:
    """Check that Java reads, writes, alters, renames and drops a table that we created."""
    ours = lake.ours
    ours.create_database("shop", properties={"owner": "me"})
    put(ours.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"}), 1, 2)
    assert lake.java("tables")["tables"] == ["shop.orders"]
    assert lake.java("database", database="shop")["options"]["owner"] == "me"
    assert lake.java_rows("shop.orders") == [[1, "1"], [2, "2"]]
    lake.java("write", table="shop.orders", rows=[["+I", 3, "java"]])
    assert ids(ours.table("shop.orders")) == [1, 2, 3]
    lake.java("alter", table="shop.orders", changes=[{"kind": "add", "name": "more", "type": "INT"}])
    assert lake.java_rows("shop.orders") == [[1, "1", None], [2, "2", None], [3, "java", None]]
    assert ours.table("shop.orders").scan().to_arrow().column_names == ["id", "v", "more"]
    lake.java("rename_table", table="shop.orders", to="shop.sales")
    assert (ours.tables("shop"), ids(ours.table("shop.sales"))) == (["sales"], [1, 2, 3])
    check_invariants(ours.table("shop.sales"), oracle=lake.oracle)
    lake.java("drop_table", table="shop.sales")
    assert ours.tables("shop") == []


def create_events(lake: SharedCatalog) -> Table:
    """Create shop.events without keys, whose snapshots all stay, for commits of both at the same time."""
    lake.ours.create_database("shop")
    kept = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
    options = {"bucket": "-1", "commit.max-retries": "100", **kept}
    return lake.ours.create_table("shop.events", COLUMNS, options=options)


def check_java_waits(lake: SharedCatalog, held: AbstractContextManager[object]) -> None:
    """Check that Java writes to shop.events, which has one snapshot, only after the lock `held` was released."""
    rows = [["+I", 2, "java"]]
    writer = threading.Thread(target=lambda: lake.java("write", table="shop.events", rows=rows), daemon=True)
    with held:
        writer.start()
        writer.join(timeout=2)
        assert writer.is_alive()
        assert lake.ours.store("shop.events").snapshots.latest_id() == 1
    ended(writer)
    assert ids(lake.ours.table("shop.events")) == [1, 2]


def check_commits_of_both(lake: SharedCatalog, table: Table, commits: int) -> None:
    """Check that no commit is lost when both write to the empty shop.events at the same time, we by `table`."""
    failures: list[BaseException] = []

    def write_by_java() -> None:
        try:
            for number in range(commits // 2):
                lake.java("write", table="shop.events", rows=[["+I", 1000 + number, "java"]])
        except BaseException as error:  # noqa: BLE001 -- asserted below
            failures.append(error)

    writer = threading.Thread(target=write_by_java)
    writer.start()
    for number in range(commits // 2):
        put(table, number)
    writer.join()
    assert failures == []
    found = lake.ours.table("shop.events")
    expected = [*range(commits // 2), *range(1000, 1000 + commits // 2)]
    assert ids(found) == [row[0] for row in lake.java_rows("shop.events")] == expected
    # Java reads each of the snapshots, which takes longer than all commits of a night.
    check_invariants(found, oracle=lake.oracle if commits <= 40 else None)
