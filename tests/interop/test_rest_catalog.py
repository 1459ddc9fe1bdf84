"""One REST server, used by Java Paimon, by pypaimon and by Penstock: the server and our client are proven by both."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.table.catalog.rest_login import DlfKeys, dlf_authorization
from penstock.table.handle import Table
from tests.interop.kept_views import check_views_of_java, check_views_of_ours
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.interop.pypaimon.client import Pypaimon
from tests.invariants import check_invariants
from tests.rest_server import RestCatalogServer, running

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING NOT NULL")]
ROW_TYPE = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("v", pa.string()),
        pa.field("dt", pa.string(), nullable=False),
    ]
)
KEYED = {"primary_keys": ["id", "dt"], "partition_keys": ["dt"], "options": {"bucket": "1"}}


class Lake:
    """The catalog of one server in three implementations."""

    def __init__(self, server: RestCatalogServer, options: dict[str, str], oracle: Oracle) -> None:
        self.server, self.options, self.oracle = server, options, oracle

    @property
    def ours(self) -> penstock.Catalog:
        return penstock.Catalog("lake", self.options)

    @property
    def theirs(self) -> dict[str, str]:
        """The options of pypaimon."""
        return {**self.options, "warehouse": "lake"}

    def java(self, op: str, **arguments: Any) -> Any:
        return self.oracle.ask(op, warehouse="lake", catalog_options=self.options, **arguments)

    def java_rows(self, table: str) -> list[Any]:
        return sorted(self.java("read", table=table)["rows"])

    def commits(self) -> list[Any]:
        return [body for method, path, body in self.server.requests if method == "POST" and path.endswith("/commit")]


@pytest.fixture
def lake(oracle: Oracle, tmp_path: Path) -> Iterator[Lake]:
    with running(tmp_path / "files") as (server, options):
        yield Lake(server, options, oracle)


def rows(*ids: int, dt: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "v": [str(id_) for id_ in ids], "dt": [dt] * len(ids)}, schema=ROW_TYPE)


def put(table: Table, *ids: int, dt: str = "x") -> None:
    with table.writer() as writer:
        writer.write(rows(*ids, dt=dt))
        writer.commit()


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_java_uses_our_catalog(lake: Lake) -> None:
    ours = lake.ours
    for name in ("a", "b", "shop"):
        ours.create_database(name, properties={"team": "sales"})
    table = ours.create_table("shop.orders", COLUMNS, comment="all orders", **KEYED)
    put(table, 1, 2)
    assert lake.java("tables")["tables"] == ["shop.orders"]
    assert lake.java("database", database="shop")["options"]["team"] == "sales"
    assert lake.java_rows("shop.orders") == [[1, "1", "x"], [2, "2", "x"]]
    lake.java("write", table="shop.orders", rows=[["+I", 3, "java", "y"]])
    assert ids(table.refresh()) == [1, 2, 3]
    check_invariants(table.refresh(), oracle=lake.oracle)
    lake.java("rename_table", table="shop.orders", to="shop.sales")
    assert ours.tables("shop") == ["sales"]
    assert ids(ours.table("shop.sales")) == [1, 2, 3]
    lake.java("drop_table", table="shop.sales")
    assert ours.tables("shop") == []
    with pytest.raises(JavaRefused, match=r"sales"):
        lake.java("read", table="shop.sales")


def test_signed_requests_of_all_clients_are_accepted(lake: Lake) -> None:
    keys = DlfKeys("the-id", "the-secret", "the-session")
    refused = 0

    def signed(method: str, path: str, query: Mapping[str, str], data: bytes, headers: Mapping[str, str]) -> bool:
        nonlocal refused
        given = {name: text for name, text in headers.items() if data or name != "content-type"}
        found = dlf_authorization(keys, "cn-hangzhou", method, path, query, given) == headers.get("authorization")
        refused += not found
        return found

    lake.server.authorize = signed
    lake.options = {
        "metastore": "rest", "uri": lake.options["uri"], "token.provider": "dlf", "dlf.region": "cn-hangzhou",
        "dlf.access-key-id": keys.key_id, "dlf.access-key-secret": keys.secret, "dlf.security-token": "the-session",
    }  # fmt: skip
    ours = lake.ours
    ours.create_database("shop")
    put(ours.create_table("shop.orders", COLUMNS, **KEYED), 1)
    lake.java("write", table="shop.orders", rows=[["+I", 2, "java", "x"]])
    assert lake.java("tables")["tables"] == ["shop.orders"]
    assert ids(ours.table("shop.orders")) == [1, 2]
    assert refused == 0
    with pytest.raises(penstock.ConfigError, match="login is not valid"):
        penstock.Catalog("lake", {**lake.options, "dlf.access-key-secret": "another"}).databases()
    assert refused == 1


def test_we_use_the_catalog_of_java(lake: Lake) -> None:
    lake.java(
        "create", table="shop.orders", columns=COLUMNS, pk=["id", "dt"], partition=["dt"], options={"bucket": "1"}
    )
    lake.java("write", table="shop.orders", rows=[["+I", 1, "java", "x"]])
    ours = lake.ours
    assert (ours.databases(), ours.tables("shop")) == (["shop"], ["orders"])
    put(ours.table("shop.orders"), 2)
    changes = [
        penstock.AddColumn("more", "ROW<a INT, b ARRAY<STRING>>", comment="of many", after="v"),
        penstock.RenameColumn("v", "w"),
        penstock.AddColumn("at", "TIMESTAMP(3)", first=True),
        penstock.UpdateColumnPosition("at", last=True),
        penstock.AddColumn(["more", "c"], "BIGINT"),
        penstock.UpdateColumnComment("w", "text"),
        penstock.SetOption("snapshot.num-retained.min", "7"),
        penstock.UpdateComment("renewed"),
    ]
    ours.alter_table("shop.orders", changes)
    assert ours.table("shop.orders").schema.names == ["id", "w", "more", "dt", "at"]
    assert lake.java_rows("shop.orders") == [[1, "java", None, "x", None], [2, "2", None, "x", None]]
    info = lake.java("info", table="shop.orders")
    assert info["options"]["snapshot.num-retained.min"] == "7"
    ours.alter_table("shop.orders", [penstock.ResetOption("snapshot.num-retained.min"), penstock.DropColumn("more")])
    assert ours.table("shop.orders").schema.names == ["id", "w", "dt", "at"]
    check_invariants(ours.table("shop.orders"), oracle=lake.oracle)


def test_java_changes_a_schema_that_we_read(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop")
    put(ours.create_table("shop.orders", COLUMNS, **KEYED), 1)
    changes = [
        {"kind": "add", "name": "n", "type": "INT", "comment": "number"},
        {"kind": "rename", "name": "v", "to": "w"},
        {"kind": "type", "name": "n", "type": "BIGINT"},
        {"kind": "set", "key": "snapshot.num-retained.min", "value": "7"},
    ]
    lake.java("alter", table="shop.orders", changes=changes)
    table = ours.table("shop.orders")
    assert table.schema.names == ["id", "w", "dt", "n"]
    assert table.schema.field("n").type == pa.int64()
    assert table.options["snapshot.num-retained.min"] == "7"


def test_requests_of_a_commit_are_those_of_java(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop")
    for name in ("ours", "java"):
        ours.create_table(f"shop.{name}", COLUMNS, **KEYED)
    put(ours.table("shop.ours"), 1, dt="x")
    put(ours.table("shop.ours"), 2, dt="y")
    for number, dt in ((1, "x"), (2, "y")):
        lake.java("write", table="shop.java", rows=[["+I", number, str(number), dt]])
    mine, theirs = lake.commits()[:2], lake.commits()[2:]
    assert len(mine) == len(theirs) == 2
    for request, other in zip(mine, theirs, strict=True):
        assert request.keys() == other.keys()
        assert request["snapshot"].keys() - {"properties"} == other["snapshot"].keys() - {"properties"}
        [counted], [expected] = request["statistics"], other["statistics"]
        assert counted.keys() == expected.keys()
        for key in ("spec", "recordCount", "fileCount"):
            assert counted[key] == expected[key]
        assert abs(counted["lastFileCreationTime"] - expected["lastFileCreationTime"]) < 600_000


def test_branches_tags_and_rollback_by_both(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop")
    table = ours.create_table("shop.orders", COLUMNS, **KEYED)
    put(table, 1)
    table.create_tag("one")
    put(table, 2)
    table.create_branch("b", "one")
    put(ours.table("shop.orders$branch_b"), 3)
    assert lake.java_rows("shop.orders$branch_b") == [[1, "1", "x"], [3, "3", "x"]]
    lake.java("write", table="shop.orders$branch_b", rows=[["+I", 4, "java", "x"]])
    assert ids(ours.table("shop.orders$branch_b")) == [1, 3, 4]
    lake.java("rollback", table="shop.orders", snapshot=1)
    assert ids(table.refresh()) == [1]
    table.refresh().fast_forward("b")
    assert lake.java_rows("shop.orders") == [[1, "1", "x"], [3, "3", "x"], [4, "java", "x"]]
    table.refresh().rollback_to("one")
    assert lake.java_rows("shop.orders") == [[1, "1", "x"]]
    table.refresh().delete_branch("b")
    assert lake.java("info", table="shop.orders")["branches"] == []
    requested = {path.rpartition("/")[2] for method, path, _ in lake.server.requests if method != "GET"}
    assert {"rollback", "branches", "forward", "b"} <= requested
    check_invariants(table.refresh(), oracle=lake.oracle)


@pytest.mark.slow
def test_commits_of_both_are_all_there(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop")
    table = ours.create_table("shop.events", COLUMNS, options={"bucket": "-1", "commit.max-retries": "100"})
    failures: list[BaseException] = []

    def java() -> None:
        try:
            for number in range(20):
                lake.java("write", table="shop.events", rows=[["+I", 1000 + number, "java", "x"]])
        except BaseException as error:  # noqa: BLE001 -- asserted below
            failures.append(error)

    writer = threading.Thread(target=java)
    writer.start()
    for number in range(20):
        put(table, number)
    writer.join()
    assert failures == []
    assert ids(table.refresh()) == [*range(20), *range(1000, 1020)]
    check_invariants(table.refresh(), oracle=lake.oracle)


def test_pypaimon_and_we_use_one_catalog(lake: Lake, pypaimon: Pypaimon) -> None:
    ours = lake.ours
    for name in ("a", "b", "shop"):
        ours.create_database(name)
    table = ours.create_table("shop.orders", COLUMNS, **KEYED)
    put(table, 1)
    assert pypaimon.command(lake.theirs, "list_databases") == ["a", "b", "shop"]
    assert pypaimon.command(lake.theirs, "list_tables", "shop") == ["orders"]
    assert pypaimon.read("shop.orders", catalog=lake.theirs)["id"].to_pylist() == [1]
    pypaimon.write("shop.orders", rows(2, dt="y"), catalog=lake.theirs)
    assert ids(table.refresh()) == [1, 2]
    pypaimon.create(
        Path("lake"), "shop.made", COLUMNS, primary_keys=["id"], options={"bucket": "1"}, catalog=lake.options
    )
    pypaimon.write("shop.made", rows(5), catalog=lake.theirs)
    made = ours.table("shop.made")
    put(made, 6)
    assert ids(made) == [5, 6]
    assert sorted(pypaimon.read("shop.made", catalog=lake.theirs)["id"].to_pylist()) == [5, 6]
    assert lake.java_rows("shop.made") == [[5, "5", "x"], [6, "6", "x"]]
    pypaimon.command(lake.theirs, "rename_table", "shop.made", "a.renamed")
    assert ours.tables("a") == ["renamed"]
    pypaimon.command(lake.theirs, "drop_table", "a.renamed")
    assert not ours.table_exists("a.renamed")
    check_invariants(table.refresh())


def test_a_view_of_java_is_listed_read_and_dropped(lake: Lake) -> None:
    lake.ours.create_database("shop")
    put(lake.ours.create_table("shop.orders", COLUMNS, **KEYED), 1, 2)
    check_views_of_java(lake)


def test_java_finds_a_view_as_it_was_created_replaced_and_renamed(lake: Lake) -> None:
    lake.ours.create_database("shop")
    lake.ours.create_table("shop.orders", COLUMNS, **KEYED)
    check_views_of_ours(lake)
