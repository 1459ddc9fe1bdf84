"""Commits by a server: lost replies, refusals, and schema changes beside those of others."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from tests.invariants import check_invariants
from tests.rest_server import Fault, RestCatalogServer, running

COLUMNS = [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL")]
ROW_TYPE = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("dt", pa.string(), nullable=False)])


@dataclass
class Lake:
    server: RestCatalogServer
    catalog: penstock.Catalog
    table: Table
    options: dict[str, str]

    def commits(self) -> int:
        return sum(method == "POST" and path.endswith("/commit") for method, path, _ in self.server.requests)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with running(tmp_path / "files") as (server, options):
        catalog = penstock.Catalog("lake", options, ambient=Environment(sleep=lambda _: None))
        catalog.create_database("shop")
        table = catalog.create_table("shop.orders", COLUMNS, partition_keys=["dt"], options={"bucket": "-1"})
        yield Lake(server, catalog, table, options)


def put(table: Table, *ids: int, identifier: int | None = None, dt: str = "x") -> None:
    with table.writer(commit_user="job") as writer:
        writer.write(pa.table({"id": list(ids), "dt": [dt] * len(ids)}, schema=ROW_TYPE))
        writer.commit(identifier)


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.slow
def test_a_commit_whose_reply_is_lost_counts_once(lake: Lake) -> None:
    lake.server.faults.append(Fault("POST", "/commit", cut=True))
    put(lake.table, 1, identifier=7)
    assert lake.commits() == 1
    put(lake.table, 2, identifier=8)
    assert ids(lake.table.refresh()) == [1, 2]
    assert lake.table.refresh().snapshots[-1].id == 2
    check_invariants(lake.table.refresh())


@pytest.mark.slow
def test_a_commit_whose_request_is_lost_is_sent_again(lake: Lake) -> None:
    lake.server.faults.append(Fault("POST", "/commit", status=502))
    put(lake.table, 1, identifier=7)
    assert ids(lake.table.refresh()) == [1]
    assert lake.table.refresh().snapshots[-1].id == 1
    check_invariants(lake.table.refresh())


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503, 500])
def test_a_commit_of_a_busy_server_is_tried_again(lake: Lake, status: int) -> None:
    lake.server.faults.append(Fault("POST", "/commit", status=status, times=2))
    put(lake.table, 1)
    assert ids(lake.table.refresh()) == [1]
    check_invariants(lake.table.refresh())


@pytest.mark.slow
def test_another_writer_between_the_lost_request_and_the_look_is_not_mistaken_for_ours(lake: Lake) -> None:
    def other() -> None:
        put(lake.catalog.table("shop.orders"), 9)

    lake.server.faults.append(Fault("POST", "/commit", status=502, before=other))
    put(lake.table, 1, identifier=7)
    assert ids(lake.table.refresh()) == [1, 9]
    assert len(lake.table.refresh().snapshots) == 2
    check_invariants(lake.table.refresh())


@pytest.mark.slow
def test_a_commit_that_stays_uncertain_deletes_nothing_and_is_found_by_its_identifier(lake: Lake) -> None:
    table = lake.catalog.table("shop.orders")
    lake.catalog.alter_table("shop.orders", [penstock.SetOption("commit.max-retries", "0")])
    lake.server.faults += [
        Fault("POST", "/commit", cut=True),
        Fault("GET", "/snapshot", status=500, before=lambda: None, times=1),
    ]
    with pytest.raises(StoreError):
        # The first look is before the commit, so the fault of the look is armed by the commit itself.
        _put_with_blind_look(lake, table)
    assert ids(table.refresh()) == [1]
    put(table.refresh(), 1, identifier=7)
    assert ids(table.refresh()) == [1]
    check_invariants(table.refresh())


def _put_with_blind_look(lake: Lake, table: Table) -> None:
    look = lake.server.faults.pop()
    cut = lake.server.faults[0]
    cut.before = lambda: lake.server.faults.append(look)
    look.times = 100
    try:
        put(table.refresh(), 1, identifier=7)
    finally:
        lake.server.faults.clear()


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refused_commit_leaves_nothing(lake: Lake, status: int) -> None:
    lake.server.faults.append(Fault("POST", "/commit", status=status))
    with pytest.raises(CommitConflict, match="the REST catalog refused the commit"):
        put(lake.table, 1)
    assert not list(Path(lake.table.path).rglob("manifest*-*"))
    put(lake.table, 2)
    assert ids(lake.table.refresh()) == [2]
    check_invariants(lake.table.refresh())


@pytest.mark.slow
def test_a_table_that_was_created_again_is_not_written_by_a_writer_of_the_old_one(lake: Lake) -> None:
    writer = lake.table.writer(commit_user="job")
    writer.write(pa.table({"id": [1], "dt": ["x"]}, schema=ROW_TYPE))
    [old] = lake.server.tables.values()
    old.id = "of another table"
    with pytest.raises(CommitConflict) as caught:
        writer.commit(1)
    assert "created again" in str(caught.value.hint)
    assert old.newest == {}


@pytest.mark.slow
def test_statistics_of_partitions_add_up(lake: Lake) -> None:
    put(lake.table, 1, 2, dt="x")
    put(lake.table, 3, dt="y")
    lake.table.refresh().delete("id = 1")
    [table] = lake.server.tables.values()
    counts = {key: (item["recordCount"], item["fileCount"]) for key, item in table.partitions[""].items()}
    assert counts == {'{"dt": "x"}': (1, 1), '{"dt": "y"}': (1, 1)}
    sizes = {item["spec"]["dt"]: item["fileSizeInBytes"] for item in table.partitions[""].values()}
    files = lake.table.refresh().system("files").to_pylist()
    assert {row["partition"].strip("{}"): row["file_size_in_bytes"] for row in files} == sizes


@pytest.mark.slow
def test_the_newest_snapshot_is_the_servers(lake: Lake) -> None:
    put(lake.table, 1)
    put(lake.table, 2)
    [table] = lake.server.tables.values()
    (Path(lake.table.path) / "snapshot" / "snapshot-2").rename(Path(lake.table.path) / "written-later")
    assert ids(lake.table.refresh()) == [1, 2]
    snapshots = lake.catalog.store("shop.orders").snapshots
    newest = snapshots.find(2)
    assert newest is not None
    assert (newest.id, snapshots.latest_id(), snapshots.find(3)) == (2, 2, None)
    table.newest[""] = json.loads((Path(lake.table.path) / "snapshot" / "snapshot-1").read_text())
    assert ids(lake.table.refresh()) == [1]


@pytest.mark.slow
def test_a_server_without_snapshots_leaves_them_to_files(lake: Lake) -> None:
    put(lake.table, 1)
    lake.server.faults.append(Fault("GET", "/snapshot", status=501, times=100))
    assert ids(lake.table.refresh()) == [1]


@pytest.mark.slow
def test_a_store_is_pickled_for_tasks_without_its_token(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put(lake.table, 1)
    options = {**lake.options, "token": "${TOKEN_OF_THE_TEST}"}
    monkeypatch.setenv("TOKEN_OF_THE_TEST", lake.options["token"])
    store = penstock.Catalog("lake", options).store("shop.orders")
    assert ids(Table(store)) == [1]
    sent = pickle.dumps(store)
    assert lake.options["token"].encode() not in sent
    assert ids(Table(pickle.loads(sent))) == [1]


@pytest.mark.slow
def test_a_schema_change_whose_reply_is_lost_is_done_once(lake: Lake) -> None:
    lake.server.faults.append(Fault("POST", "/orders", cut=True))
    lake.catalog.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert lake.catalog.table("shop.orders").schema.names == ["id", "dt", "more"]
    assert lake.catalog.store("shop.orders").schema().id == 1


@pytest.mark.slow
def test_a_schema_change_that_did_not_happen_is_an_error(lake: Lake) -> None:
    lake.server.faults.append(Fault("POST", "/orders", status=502))
    with pytest.raises(StoreError, match="the REST catalog failed"):
        lake.catalog.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert lake.catalog.table("shop.orders").schema.names == ["id", "dt"]


@pytest.mark.slow
def test_a_schema_change_beside_another_ones_is_checked_again(lake: Lake) -> None:
    def other() -> None:
        lake.catalog.alter_table("shop.orders", [penstock.AddColumn("theirs", "INT")])

    lake.server.faults.append(Fault("POST", "/orders", status=409, before=other))
    lake.catalog.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert lake.catalog.table("shop.orders").schema.names == ["id", "dt", "theirs", "more"]


@pytest.mark.slow
def test_a_refused_schema_change_is_the_servers_word(lake: Lake) -> None:
    lake.server.faults.append(Fault("POST", "/orders", status=403))
    with pytest.raises(ConfigError, match="refused a request"):
        lake.catalog.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])


@pytest.mark.slow
def test_a_change_that_paimon_refuses_is_not_sent(lake: Lake) -> None:
    with pytest.raises(ConfigError):
        lake.catalog.alter_table("shop.orders", [penstock.DropColumn("dt")])
    assert not [path for method, path, _ in lake.server.requests if method == "POST" and path.endswith("/orders")]


@pytest.mark.slow
def test_branches_and_rollback_use_the_server(lake: Lake) -> None:
    put(lake.table, 1)
    lake.table.create_tag("one")
    put(lake.table, 2)
    lake.table.create_branch("b", "one")
    put(lake.catalog.table("shop.orders$branch_b"), 3)
    assert ids(lake.catalog.table("shop.orders$branch_b")) == [1, 3]
    lake.table.rollback_to("one")
    assert ids(lake.table.refresh()) == [1]
    lake.table.refresh().fast_forward("b")
    assert ids(lake.table.refresh()) == [1, 3]
    lake.table.refresh().rollback_to(1)
    lake.table.delete_branch("b")
    assert lake.table.branches == []
    sent = [(method, path.rpartition("/")[2]) for method, path, _ in lake.server.requests if method != "GET"]
    for request in [("POST", "branches"), ("POST", "rollback"), ("POST", "forward"), ("DELETE", "b")]:
        assert request in sent
    with pytest.raises(ConfigError):
        lake.table.delete_branch("b")
    with pytest.raises(TableMissing):
        lake.catalog.table("shop.orders$branch_b")
    check_invariants(lake.table.refresh())
