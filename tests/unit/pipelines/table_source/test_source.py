"""Pipelines whose source is a table of the warehouse, run in this process and compared with that table."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, PositionLost
from penstock.pipelines.config.load import parsed
from penstock.table.catalog.catalog import Catalog
from penstock.table.files.file_reader import BATCH_ROWS
from penstock.table.handle import Table
from penstock.table.usable import check_usable
from tests.here import run
from tests.invariants import check_invariants

COLUMNS = [("id", "BIGINT NOT NULL"), ("city", "STRING"), ("score", "BIGINT")]
LOGGED = {"bucket": "2", "changelog-producer": "lookup"}


class Lake:
    """A warehouse with one source table, and a pipeline that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.catalog = folder, Catalog(f"{folder}/lake")
        self.catalog.create_database("ods")
        self.chance = random.Random(7)

    def create(self, name: str, options: dict[str, Any], columns: Any = None, keys: tuple[str, ...] = ("id",)) -> Table:
        return self.catalog.create_table(f"ods.{name}", columns or COLUMNS, primary_keys=list(keys), options=options)

    def table(self, name: str) -> Table:
        return self.catalog.table(name)

    def write(self, name: str, rows: list[dict[str, Any]], kinds: list[str] | None = None) -> None:
        self.write_into(f"ods.{name}", rows, kinds)

    def write_into(self, name: str, rows: list[dict[str, Any]], kinds: list[str] | None = None) -> None:
        table = self.table(name)
        with table.writer() as writer:
            writer.write(pa.Table.from_pylist(rows, schema=table.schema), kinds)
            writer.commit()

    def change(self, name: str, count: int = 40, *, deletes: bool = True) -> None:
        ids = [self.chance.randrange(60) for _ in range(count)]
        rows = [
            {"id": number, "city": self.chance.choice("abc"), "score": self.chance.randrange(100)} for number in ids
        ]
        kinds = [self.chance.choice(["+U", "+U", "-D"]) for _ in ids] if deletes else None
        self.write(name, rows, kinds)

    def run(self, *tables: str, sink: dict[str, Any] | None = None, source: Any = None, **sections: Any) -> None:
        pipeline = sections.pop("pipeline", {})
        description = {
            "pipeline": {"name": "layer", "checkpoint": f"{self.folder}/checkpoint", **pipeline},
            "source": {"type": "table", "tables": [f"ods.{name}" for name in tables], **(source or {})},
            "sink": {"catalog": {"warehouse": f"{self.folder}/lake"}, "database": "dwd", **(sink or {})},
            **sections,
        }
        self.spec = parsed(description)
        run(self.spec)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        table = self.table(name)
        check_invariants(table)
        return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        LOGGED,
        {"bucket": "2"},
        {"bucket": "1", "changelog-producer": "full-compaction", "sequence.field": "score"},
        {"bucket": "-1", "changelog-producer": "lookup"},
        {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ],
    ids=str,
)
def test_the_rows_and_the_changes_of_a_table_arrive(lake: Lake, options: dict[str, Any]) -> None:
    lake.create("orders", options)
    lake.run("orders")
    assert lake.rows("dwd.orders") == []
    for number in range(4):
        lake.change("orders", deletes=number > 0)
        if number == 2:
            lake.change("orders")
            lake.table("ods.orders").compact()
        lake.run("orders", pipeline={"max-batch": {"rows": 30}} if number == 3 else {})
        assert lake.rows("dwd.orders") == lake.rows("ods.orders") != []


@pytest.mark.slow
def test_a_table_with_rows_is_read_in_batches_of_its_splits(lake: Lake) -> None:
    lake.create("orders", {"bucket": "5"})
    lake.change("orders", 200, deletes=False)
    lake.run("orders", pipeline={"max-batch": {"rows": 10}})
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
    made = [number for number in lake.table("dwd.orders").snapshots if number.commit_kind.name == "APPEND"]
    assert len(made) > 2


@pytest.mark.slow
def test_an_aggregation_retracts_by_the_changelog(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    rule = {"source-table": "ods.orders", "projection": "city, score", "primary-keys": ["city"]}
    options = {"merge-engine": "aggregation", "fields.score.aggregate-function": "sum", "bucket": "1"}
    for _ in range(4):
        lake.change("orders")
        lake.run("orders", sink={"table": "sums", "table-options": options}, transform=[rule])
        sums = Counter[str]()
        for _id, city, score in lake.rows("ods.orders"):
            sums[city] += score
        # A city without orders keeps its row, with the sum 0.
        assert {city: total for city, total in lake.rows("dwd.sums") if total} == {c: n for c, n in sums.items() if n}


@pytest.mark.slow
def test_an_update_is_one_change_also_between_two_batches_of_a_changelog_file(lake: Lake) -> None:
    """An old row that ends a batch was undone, and then the new row, which the filter leaves out, was undone too."""
    lake.create("orders", {**LOGGED, "bucket": "1"})
    rule = {"source-table": "ods.orders", "projection": "city, score", "primary-keys": ["city"], "filter": "score < 50"}
    options = {"merge-engine": "aggregation", "fields.score.aggregate-function": "sum", "bucket": "1"}
    sink, updated = {"table": "sums", "table-options": options}, range(1, BATCH_ROWS // 2 + 1)
    lake.write("orders", [{"id": number, "city": "a", "score": 10} for number in updated])
    lake.run("orders", sink=sink, transform=[rule])
    # One new row before the updates, so that a batch of even size ends in the middle of an update.
    lake.write("orders", [{"id": number, "city": "a", "score": 90 if number else 1} for number in (0, *updated)])
    lake.run("orders", sink=sink, transform=[rule])
    assert lake.rows("dwd.sums") == [("a", 1)]


@pytest.mark.slow
def test_a_row_that_leaves_the_filter_is_deleted(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    rule = {"source-table": "ods.*", "filter": "score < 50"}
    for _ in range(4):
        lake.change("orders")
        lake.run("orders", transform=[rule])
        assert lake.rows("dwd.orders") == [row for row in lake.rows("ods.orders") if row[2] < 50]


def test_two_tables_fill_one_wide_table(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    lake.create("payments", LOGGED, [("id", "BIGINT NOT NULL"), ("paid", "BIGINT")])
    lake.write("orders", [{"id": number, "city": "a", "score": number} for number in (1, 2)])
    options = {"merge-engine": "partial-update", "ignore-delete": "true", "bucket": "1"}
    lake.run("orders", "payments", sink={"table": "wide", "table-options": options})
    lake.write("payments", [{"id": number, "paid": number * 10} for number in (2, 3)])
    lake.run("orders", "payments", sink={"table": "wide", "table-options": options})
    wide = {row["id"]: row for row in lake.table("dwd.wide").scan().to_arrow().to_pylist()}
    assert {key: (row["city"], row["paid"]) for key, row in wide.items()} == {
        1: ("a", None),
        2: ("a", 20),
        3: (None, 30),
    }


@pytest.mark.slow
def test_schema_changes_are_followed(lake: Lake) -> None:
    table = lake.create("orders", LOGGED)
    lake.change("orders")
    lake.run("orders")
    table.store.evolve([penstock.AddColumn("note", "STRING")], check_usable)
    lake.write("orders", [{"id": 100, "city": "a", "score": 1, "note": "new"}])
    lake.run("orders")
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
    assert (100, "a", 1, "new") in lake.rows("dwd.orders")


@pytest.mark.slow
def test_a_consumer_keeps_the_snapshots_that_are_not_read(lake: Lake) -> None:
    table = lake.create("orders", LOGGED)
    lake.change("orders")
    lake.run("orders", source={"consumer-id": "layer"})
    for _ in range(4):
        lake.change("orders")
    table = table.refresh()
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    assert table.latest_snapshot is not None
    assert len(table.snapshots) > 4
    lake.run("orders", source={"consumer-id": "layer"})
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")


@pytest.mark.slow
@pytest.mark.parametrize("has_expired", [True, False])
def test_a_table_that_was_created_again_is_not_the_one_that_was_read(lake: Lake, has_expired: bool) -> None:
    lake.create("orders", {"bucket": "1"})
    for _ in range(2):
        lake.change("orders")
    lake.run("orders")
    before = lake.rows("dwd.orders")
    lake.catalog.drop_table("ods.orders")
    table = lake.create("orders", {"bucket": "1"})
    for _ in range(4):
        lake.change("orders")
    if has_expired:
        table.refresh().expire_snapshots(retain_max=2, retain_min=2, older_than=2**60)
        assert table.store.snapshots.earliest_id() == 3
    with pytest.raises(PositionLost, match="snapshot 2 was replaced after it was read"):
        lake.run("orders")
    assert lake.rows("dwd.orders") == before


@pytest.mark.slow
def test_a_position_that_expired_or_was_rolled_back_is_lost(lake: Lake) -> None:
    table = lake.create("orders", {"bucket": "1"})
    for _ in range(3):
        lake.change("orders")
    lake.run("orders")
    table.rollback_to(1)
    with pytest.raises(PositionLost, match="rolled back") as caught:
        lake.run("orders")
    assert "--resnapshot" in str(caught.value.hint)
    for _ in range(4):
        lake.change("orders")
    with pytest.raises(PositionLost, match="snapshot 3 was replaced"):
        lake.run("orders")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    with pytest.raises(PositionLost, match="no longer has the snapshot"):
        lake.run("orders")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "aggregation"}, "with aggregation the rows that are written"),
        ({"merge-engine": "partial-update"}, "with partial-update the rows that are written"),
        ({"merge-engine": "first-row"}, "with first-row the rows that are written"),
        ({"sequence.field": "score"}, "with sequence.field = score the rows"),
    ],
)
def test_a_table_whose_written_rows_are_not_what_readers_see_is_refused(
    lake: Lake, options: dict[str, str], message: str
) -> None:
    lake.create("orders", {"bucket": "1", **options})
    with pytest.raises(ConfigError, match=message) as caught:
        lake.run("orders")
    assert "changelog-producer" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("sink", "rule"),
    [
        ({"table-options": {"merge-engine": "aggregation", "bucket": "1"}}, {}),
        ({"table-options": {"changelog-producer": "input", "bucket": "1"}}, {}),
        ({}, {"filter": "score < 50"}),
        ({}, {"primary-keys": ["city", "id"]}),
    ],
    ids=str,
)
def test_a_target_that_needs_old_rows_is_refused_without_a_changelog(
    lake: Lake, sink: dict[str, Any], rule: dict[str, Any]
) -> None:
    lake.create("orders", {"bucket": "1"})
    with pytest.raises(ConfigError, match="needs the old rows of updates"):
        lake.run("orders", sink=sink, transform=[{"source-table": "ods.orders", **rule}])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"tables": ["orders"]}, "not the name of a table"),
        ({"tables": ["a.b", "a.b"]}, "named twice"),
        ({"table": "a.b", "tables": ["a.b"]}, "either"),
        ({"tables": ["a.b"], "options": {"scan.mod": "latest"}}, "scan.mod is not an option"),
        ({"tables": ["ods.missing"]}, "does not exist"),
    ],
)
def test_a_section_that_names_no_tables_is_refused(lake: Lake, source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lake.run("orders", source=source)


def test_a_stream_can_begin_with_the_newest_changes(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    lake.change("orders", deletes=False)
    lake.run("orders", source={"options": {"scan.mode": "latest"}})
    assert lake.rows("dwd.orders") == []
    lake.write("orders", [{"id": 200, "city": "a", "score": 1}])
    lake.run("orders", source={"options": {"scan.mode": "latest"}})
    assert lake.rows("dwd.orders") == [(200, "a", 1)]


def test_nested_columns_arrive(lake: Lake) -> None:
    nested = [("id", "BIGINT NOT NULL"), ("tags", "ARRAY<STRING>"), ("sizes", "MAP<STRING, INT>")]
    lake.create("orders", LOGGED, nested)
    lake.write("orders", [{"id": 1, "tags": ["a", None], "sizes": [("x", 1)]}, {"id": 2, "tags": None, "sizes": None}])
    lake.run("orders")
    lake.write("orders", [{"id": 2, "tags": [], "sizes": [("y", 2)]}])
    lake.run("orders")
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
    assert lake.table("dwd.orders").schema == lake.table("ods.orders").schema
