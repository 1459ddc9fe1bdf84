"""Pipelines that add columns of dimensions, compared with a join to the snapshot that each commit names."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import CommitConflict, ConfigError
from penstock.pipelines.config.load import parsed
from penstock.pipelines.mapping import lookups
from penstock.pipelines.mapping.lookup_run import LookupRun
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.lookup.matches import LOOKUP
from penstock.table.schema.changes import AddColumn, RenameColumn, UpdateColumnType
from tests.here import run
from tests.invariants import check_invariants
from tests.rest_server import running

USERS = [("id", "INT NOT NULL"), ("name", "STRING"), ("city", "STRING")]
ORDERS = [("id", "BIGINT NOT NULL"), ("user_id", "BIGINT"), ("amount", "BIGINT")]
LOOKUP_USERS: dict[str, Any] = {"table": "dim.users", "on": {"user_id": "id"}, "columns": ["name as user_name", "city"]}


class Lake:
    """A warehouse with orders and users, and a pipeline that adds columns of the users to the orders."""

    def __init__(self, folder: Path, warehouse: str = "", options: Mapping[str, str] | None = None) -> None:
        self.folder, self.chance = folder, random.Random(3)
        self.place = {"warehouse": warehouse or f"{folder}/lake", "options": dict(options or {})}
        self.catalog = Catalog(self.place["warehouse"], self.place["options"])
        for name in ("ods", "dim"):
            self.catalog.create_database(name)

    def create(self, name: str, columns: Any, keys: tuple[str, ...] = ("id",), **options: str) -> Table:
        given = {"bucket": "1", **options} if keys else options
        return self.catalog.create_table(name, columns, primary_keys=list(keys), options=given)

    def write(self, name: str, rows: list[dict[str, Any]], kinds: list[str] | None = None) -> None:
        table = self.catalog.table(name)
        with table.writer() as writer:
            writer.write(pa.Table.from_pylist(rows, schema=table.schema), kinds)
            writer.commit()

    def users(self, *ids: int) -> None:
        self.write(
            "dim.users",
            [{"id": number, "name": f"user {self.chance.random()}", "city": "abc"[number % 3]} for number in ids],
        )

    def orders(self, count: int, first: int) -> None:
        ids = range(first, first + count)
        self.write(
            "ods.orders",
            [{"id": number, "user_id": self.chance.choice([None, *range(30)]), "amount": number} for number in ids],
        )

    def run(self, *steps: dict[str, Any], transform: dict[str, Any] | None = None, **sink: Any) -> None:
        rule = {"source-table": "ods.orders", "lookup": list(steps or [LOOKUP_USERS]), **(transform or {})}
        description = {
            "pipeline": {"name": "dwd", "checkpoint": f"{self.folder}/checkpoint"},
            "source": {"type": "table", "table": "ods.orders"},
            "transform": [rule],
            "sink": {"catalog": self.place, "database": "dwd", **sink},
        }
        run(parsed(description))

    def rows(self, name: str) -> list[dict[str, Any]]:
        table = self.catalog.table(name)
        check_invariants(table)
        return table.scan().to_arrow().to_pylist()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.create("dim.users", USERS)
    return made


@pytest.mark.slow
def test_each_row_has_the_columns_of_the_snapshot_that_its_commit_names(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, ())
    for number in range(4):
        lake.users(*lake.chance.sample(range(30), 12))
        lake.orders(50, number * 50)
        lake.run()
    target, users = lake.catalog.table("dwd.orders"), lake.catalog.table("dim.users")
    seen = 0
    for snapshot in target.snapshots:
        at = int(snapshot.properties[f"{LOOKUP}dim.users"])
        known = {row["id"]: row for row in users.scan(snapshot=at).to_arrow().to_pylist()}
        for row in target.changes(snapshot.id - 1, snapshot.id).to_pylist():
            user = known.get(row["user_id"], {"name": None, "city": None})
            assert (row["user_name"], row["city"]) == (user["name"], user["city"])
            seen += 1
    assert seen == len(lake.rows("dwd.orders")) == 200
    assert len({snapshot.properties[f"{LOOKUP}dim.users"] for snapshot in target.snapshots}) == 4


def test_a_batch_that_is_read_again_sees_the_snapshot_it_was_planned_with(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create("ods.orders", ORDERS, ())
    lake.users(*range(30))
    lake.orders(20, 0)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.pipelines.driver.commit_phase.CommitPhase.commit", _die)
        with pytest.raises(KeyboardInterrupt):
            lake.run()
    before = {row["id"]: row for row in lake.rows("dim.users")}
    lake.users(*range(30))
    lake.run()
    assert all(
        row["user_name"] == before[row["user_id"]]["name"]
        for row in lake.rows("dwd.orders")
        if row["user_id"] is not None
    )
    (snapshot,) = lake.catalog.table("dwd.orders").snapshots
    assert snapshot.properties[f"{LOOKUP}dim.users"] == "1"


def test_a_batch_after_a_rollback_sees_the_snapshot_that_got_the_id(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, ())
    lake.users(*range(30))
    lake.users(*range(30))
    lake.orders(20, 0)
    lake.run()
    lake.catalog.table("dim.users").rollback_to(1)
    lake.users(*range(30))
    known = {row["id"]: row["name"] for row in lake.rows("dim.users")}
    lake.orders(20, 20)
    lake.run()
    newest = [row for row in lake.rows("dwd.orders") if row["id"] >= 20]
    assert [row["user_name"] for row in newest] == [known.get(row["user_id"]) for row in newest]


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("metastore", ["filesystem", "rest"])
def test_a_dimension_replaced_by_another_table_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metastore: str
) -> None:
    """A catalog may leave the files of a renamed table in their folder: the pipeline still read these files."""
    with running(tmp_path / "files") as (_, options):
        lake = Lake(tmp_path, "lake", options) if metastore == "rest" else Lake(tmp_path)
        lake.create("dim.users", USERS)
        lake.create("ods.orders", ORDERS, ())
        lake.users(*range(30))
        lake.orders(20, 0)
        lake.run()
        # The second run stands for a later batch of the first one.
        monkeypatch.setattr("penstock.pipelines.job.build.forget_tables", lambda: None)
        lake.create("dim.built", [*USERS, ("more", "INT")])
        lake.write("dim.built", [{"id": number, "name": f"new {number}", "city": "n"} for number in range(30)])
        lake.catalog.rename_table("dim.users", "dim.former")
        lake.catalog.rename_table("dim.built", "dim.users")
        lake.orders(20, 20)
        lake.run()
        found = [row for row in lake.catalog.table("dwd.orders").scan().to_arrow().to_pylist() if row["id"] >= 20]
        assert len(found) == 20
        for row in found:
            assert row["user_name"] == (None if row["user_id"] is None else f"new {row['user_id']}")


def test_expressions_filters_and_keys_use_the_columns_of_a_dimension(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, **{"changelog-producer": "lookup"})
    lake.users(*range(20))
    lake.orders(50, 0)
    transform = {"projection": "id, upper(city) as place, amount", "filter": "city <> 'a'"}
    lake.run(transform=transform)
    cities = {row["id"]: row["city"] for row in lake.rows("dim.users")}
    wanted = {row["id"]: cities.get(row["user_id"]) for row in lake.rows("ods.orders")}
    expected = {key: city.upper() for key, city in wanted.items() if city not in {None, "a"} and city is not None}
    assert {row["id"]: row["place"] for row in lake.rows("dwd.orders")} == expected


@pytest.mark.slow
def test_an_inner_lookup_leaves_out_rows_that_miss_and_follows_them(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, **{"changelog-producer": "lookup"})
    lake.users(1, 2)
    inner = {**LOOKUP_USERS, "join": "inner"}
    lake.write("ods.orders", [{"id": number, "user_id": number, "amount": 1} for number in (1, 2, 3)])
    lake.run(inner)
    assert sorted(row["id"] for row in lake.rows("dwd.orders")) == [1, 2]
    lake.write("ods.orders", [{"id": 1, "user_id": 9, "amount": 2}, {"id": 3, "user_id": 2, "amount": 2}])
    lake.write("ods.orders", [{"id": 2, "user_id": 2, "amount": 1}], ["-D"])
    lake.run(inner)
    assert sorted(row["id"] for row in lake.rows("dwd.orders")) == [3]


def test_several_rows_of_a_dimension_give_several_rows(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, ())
    lake.create("dim.tags", [("user", "BIGINT"), ("tag", "STRING")], ())
    lake.write("dim.tags", [{"user": 1, "tag": "x"}, {"user": 1, "tag": "y"}, {"user": 2, "tag": "z"}])
    lake.write("ods.orders", [{"id": number, "user_id": number, "amount": 1} for number in (1, 2, 3)])
    lake.run({"table": "dim.tags", "on": {"user_id": "user"}, "columns": ["tag"]})
    found = sorted((row["id"], row["tag"] or "") for row in lake.rows("dwd.orders"))
    assert found == [(1, "x"), (1, "y"), (2, "z"), (3, "")]


def test_missing_keys_are_looked_up_again_until_all_exist(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create("ods.orders", ORDERS, ())
    lake.users(1)
    lake.write("ods.orders", [{"id": number, "user_id": number, "amount": 1} for number in (1, 2)])
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            lake.users(2)

    monkeypatch.setattr(lookups, "sleep", sleep)
    lake.run({**LOOKUP_USERS, "retry": {"fixed-delay": "7s", "max-attempts": 5}})
    assert waits == [7.0, 7.0]
    assert all(row["user_name"] for row in lake.rows("dwd.orders"))
    (snapshot,) = lake.catalog.table("dwd.orders").snapshots
    assert snapshot.properties[f"{LOOKUP}dim.users"] == "1-2"


def test_missing_keys_are_given_up_after_the_attempts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create("ods.orders", ORDERS, ())
    lake.users(1)
    lake.write("ods.orders", [{"id": 1, "user_id": 2, "amount": 1}, {"id": 2, "user_id": None, "amount": 1}])
    waits: list[float] = []
    monkeypatch.setattr(lookups, "sleep", waits.append)
    lake.run({**LOOKUP_USERS, "retry": {"max-attempts": 4}})
    assert waits == [10.0] * 4
    assert [row["user_name"] for row in lake.rows("dwd.orders")] == [None, None]


def a_step(lake: Lake, **more: Any) -> lookups.LookupStep:
    spec = parsed(
        {
            "source": {"type": "table", "table": "ods.orders"},
            "transform": [{"source-table": "ods.orders", "lookup": [{**LOOKUP_USERS, **more}]}],
            "sink": {"catalog": {"warehouse": f"{lake.folder}/lake"}},
        }
    )
    return lookups.LookupStep.of(spec.transform[0].lookup[0], CatalogSettings.of(f"{lake.folder}/lake", {}))


def found(step: lookups.LookupStep, run: LookupRun, *ids: int) -> dict[int, str]:
    """Return the names of the users with these ids, by their ids."""
    matches = step._found([pa.array(ids, pa.int64())], run)
    names = matches.rows.column("name").to_pylist()
    return {ids[number]: name for number, name in zip(matches.keys.tolist(), names, strict=True)}


def named(lake: Lake, **names: str) -> None:
    lake.write("dim.users", [{"id": int(number[1:]), "name": name, "city": "a"} for number, name in names.items()])


def test_a_snapshot_that_expired_is_replaced_by_the_newest(lake: Lake) -> None:
    lake.users(1)
    lake.users(1)
    table = lake.catalog.table("dim.users")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    run = LookupRun({"dim.users": (1, 0)})
    assert a_step(lake)._dimension(run, run.snapshots).snapshot == 2


def test_a_renamed_column_is_noticed_by_the_next_range_at_the_same_snapshot(lake: Lake) -> None:
    named(lake, u1="one")
    step = a_step(lake)
    assert found(step, LookupRun({"dim.users": (1, 0)}), 1) == {1: "one"}
    lake.catalog.alter_table("dim.users", [RenameColumn("name", "title")])
    with pytest.raises(ConfigError, match="name"):
        found(step, LookupRun({"dim.users": (1, 0)}), 1)


def test_a_snapshot_that_expired_after_it_was_opened_is_replaced_too(lake: Lake) -> None:
    """Its files that no row has asked for yet are gone."""
    named(lake, u1="one")
    step, run = a_step(lake), LookupRun({"dim.users": (1, 0)})
    step._dimension(run, run.snapshots)
    table = lake.catalog.table("dim.users")
    named(lake, u2="two")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    assert found(step, run, 1, 2) == {1: "one", 2: "two"}


def test_rows_after_a_wait_come_from_the_planned_snapshot_unless_they_miss(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(lake, u1="old")
    monkeypatch.setattr(lookups, "sleep", lambda _: named(lake, u1="new", u2="two", u3="three"))
    step, run = a_step(lake, retry={"max-attempts": 1}), LookupRun()
    assert found(step, run, 1, 2) == {1: "old", 2: "two"}
    assert found(step, run, 1, 3) == {1: "old", 3: "three"}
    assert run.used == {"dim.users": (1, 2)}
    assert run.attempts == {"dim.users": 1}


@pytest.mark.parametrize(("type_", "late"), [("BIGINT", None), ("STRING", "run it again")])
def test_a_dimension_whose_column_changes_its_type_during_a_wait_is_no_fault_of_arrow(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, type_: str, late: str | None
) -> None:
    lake.catalog.alter_table("dim.users", [AddColumn("age", "INT")])
    lake.write("dim.users", [{"id": 1, "name": "one", "city": "a", "age": 10}])

    def change(_: float) -> None:
        lake.catalog.alter_table("dim.users", [UpdateColumnType("age", type_)])
        age = 2**40 if late is None else "20"
        lake.write("dim.users", [{"id": 2, "name": "two", "city": "a", "age": age}])

    monkeypatch.setattr(lookups, "sleep", change)
    more = {"retry": {"max-attempts": 1}, "columns": ["age"]}
    step, keys = a_step(lake, **more), [pa.array([1, 2], pa.int64())]
    if late is None:
        assert step._found(keys, LookupRun()).rows.column("age").to_pylist() == [10, 2**40]
        return
    with pytest.raises(CommitConflict, match=late) as changed:
        step._found(keys, LookupRun())
    assert changed.value.retryable
    assert step._found(keys, LookupRun()).rows.column("age").to_pylist() == ["10", "20"]


def test_another_snapshot_with_the_id_of_the_planned_one_is_noticed(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create("ods.orders", ORDERS, ())
    named(lake, u1="first")
    named(lake, u1="planned")
    lake.write("ods.orders", [{"id": 1, "user_id": 1, "amount": 1}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.pipelines.driver.commit_phase.CommitPhase.commit", _die)
        with pytest.raises(KeyboardInterrupt):
            lake.run()
    lake.catalog.table("dim.users").rollback_to(1)
    named(lake, u1="other")
    named(lake, u1="newest")
    caplog.clear()
    lake.run()
    assert [row["user_name"] for row in lake.rows("dwd.orders")] == ["newest"]
    assert "event=lookup_snapshot_expired table=dim.users snapshot=2 used=3" in caplog.text
    (snapshot,) = lake.catalog.table("dwd.orders").snapshots
    assert snapshot.properties[f"{LOOKUP}dim.users"] == "3"


def test_an_aggregate_of_looked_up_columns_refuses_retracts(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, **{"changelog-producer": "lookup"})
    lake.users(1)
    lake.write("ods.orders", [{"id": 1, "user_id": 1, "amount": 1}])
    options = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum", "bucket": "1"}
    transform = {"projection": "city, amount", "primary-keys": ["city"], "filter": "city is not null"}
    lake.run(transform=transform, **{"table-options": options})
    lake.write("ods.orders", [{"id": 1, "user_id": 1, "amount": 2}])
    with pytest.raises(ConfigError, match="a lookup finds today's columns"):
        lake.run(transform=transform, **{"table-options": options})


def test_rows_leave_a_filter_by_the_dimension_after_the_dimension_has_changed(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, **{"changelog-producer": "lookup"})
    lake.write("dim.users", [{"id": 1, "name": "one", "city": "b"}])
    lake.write("ods.orders", [{"id": number, "user_id": 1, "amount": 1} for number in (1, 2, 3)])
    lake.run(transform={"filter": "city <> 'a'"})
    lake.write("dim.users", [{"id": 1, "name": "one", "city": "a"}, {"id": 2, "name": "two", "city": "b"}])
    lake.write("ods.orders", [{"id": 1, "user_id": 1, "amount": 1}], ["-D"])
    lake.write("ods.orders", [{"id": 2, "user_id": 1, "amount": 2}, {"id": 3, "user_id": 2, "amount": 2}])
    lake.run(transform={"filter": "city <> 'a'"})
    assert [row["id"] for row in lake.rows("dwd.orders")] == [3]


def test_a_key_of_looked_up_columns_refuses_updates_and_deletes(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, **{"changelog-producer": "lookup"})
    lake.users(1, 2)
    lake.write("ods.orders", [{"id": 1, "user_id": 1, "amount": 1}])
    transform = {"projection": "id, upper(city) as place, amount", "primary-keys": ["place", "id"]}
    lake.run(transform=transform)
    lake.write("ods.orders", [{"id": 1, "user_id": 2, "amount": 1}])
    with pytest.raises(ConfigError, match="the row that it changes may be under another key"):
        lake.run(transform=transform)


def test_the_newest_day_of_a_dimension_is_looked_up(lake: Lake) -> None:
    lake.create("ods.orders", ORDERS, ())
    columns = [("day", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("city", "STRING")]
    lake.catalog.create_table(
        "dim.days", columns, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": "1"}
    )
    step = {"table": "dim.days", "on": {"user_id": "id"}, "columns": ["city"], "partitions": "max_pt()"}
    lake.write("dim.days", [{"day": "2024-05-06", "id": 1, "city": "old"}, {"day": "2024-05-06", "id": 2, "city": "b"}])
    lake.write("ods.orders", [{"id": 1, "user_id": 1, "amount": 1}])
    lake.run(step)
    lake.write("dim.days", [{"day": "2024-05-07", "id": 1, "city": "new"}])
    lake.write("ods.orders", [{"id": 2, "user_id": 1, "amount": 1}, {"id": 3, "user_id": 2, "amount": 1}])
    lake.run(step)
    assert [(row["id"], row["city"]) for row in lake.rows("dwd.orders")] == [(1, "old"), (2, "new"), (3, None)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partitions": "newest"}, "does not name partitions of a dimension"),
        ({"partitions": "max_pt()"}, "the table has none"),
        ({"table": "users"}, "not the name of a table"),
        ({"table": "dim.missing"}, "the table of a lookup does not exist"),
        ({"on": {"usr_id": "id"}}, "'usr_id', which is not a column of ods.orders"),
        ({"on": {"user_id": "idd"}}, "'idd', which is not a column of dim.users"),
        ({"on": {}}, "on"),
        ({"on": {"user_id": "id", "amount": "id"}}, "'id' of the dimension is compared with several columns"),
        ({"columns": ["name", "city as name"]}, "two columns are named 'name'"),
        ({"columns": ["nmae"]}, "'nmae', which is not a column of dim.users"),
        ({"columns": ["name user_name"]}, "not a column; write"),
        ({"columns": ["id"]}, "has a column 'id', and so has the lookup"),
        ({"join": "full"}, "join"),
        ({"retry": {"output-mode": "unordered"}}, "output-mode"),
    ],
    ids=str,
)
def test_a_lookup_that_cannot_work_is_refused(lake: Lake, change: dict[str, Any], message: str) -> None:
    lake.create("ods.orders", ORDERS, ())
    with pytest.raises(ConfigError, match=message):
        lake.run({**LOOKUP_USERS, **change})
