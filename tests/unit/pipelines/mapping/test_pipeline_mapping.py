"""Transforms, routes, options by table and policies for schema changes, through a whole pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, SchemaConflict
from penstock.pipelines.config import yaml_file
from penstock.pipelines.config.model import PipelineSpec
from tests.here import run
from tests.shop import Shop, change, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_row_updated_out_of_the_filter_is_deleted(shop: Shop) -> None:
    shop.put("1.json", *(insert("orders", {"id": number, "name": "new", "q1": number}) for number in range(4)))
    rule = {"source-table": "shop.orders", "filter": "q1 > 0"}
    run(shop.spec(transform=[rule]))
    assert shop.ids("orders") == [1, 2, 3]
    shop.put(
        "2.json",
        change("UPDATE", "orders", {"id": 1, "name": "new", "q1": 0}, old=[{"q1": "1"}]),
        change("UPDATE", "orders", {"id": 0, "name": "new", "q1": 5}, old=[{"q1": "0"}]),
        change("UPDATE", "orders", {"id": 2, "name": "paid", "q1": 2}, old=[{"name": "new"}]),
    )
    run(shop.spec(transform=[rule]))
    assert [(row["id"], row["name"]) for row in shop.rows("orders")] == [(0, "new"), (2, "paid"), (3, "new")]


def test_the_changelog_of_a_filtered_table_contains_deletes_and_inserts(shop: Shop) -> None:
    sink = {"table-options": {"bucket": "1", "changelog-producer": "input"}}
    rule = {"source-table": "shop.orders", "filter": "q1 > 0"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("orders", {"id": 2, "q1": 0}))
    run(shop.spec(transform=[rule], sink=sink))
    shop.put(
        "2.json",
        change("UPDATE", "orders", {"id": 1, "q1": 0}, old=[{"q1": "1"}]),
        change("UPDATE", "orders", {"id": 2, "q1": 3}, old=[{"q1": "0"}]),
    )
    run(shop.spec(transform=[rule], sink=sink))
    changes = shop.table("orders").changes(1, 2)
    found = sorted(zip(changes["rowkind"].to_pylist(), changes["id"].to_pylist(), strict=True))
    assert found == [("+I", 2), ("-D", 1)]


def test_a_projection_decides_columns_keys_and_partitions(shop: Shop) -> None:
    rule = {
        "source-table": "shop.orders",
        "projection": "*, upper(name) as loud, cast(id % 2 as string) as part",
        "primary-keys": ["id", "part"],
        "partition-keys": "part",
        "mask": {"name": "keep-first(1)"},
        "table-options": "bucket=1,changelog-producer=input",
    }
    shop.put("1.json", insert("orders", {"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}))
    run(shop.spec(transform=[rule]))
    table = shop.table("orders")
    assert (table.primary_keys, table.partition_keys) == (["id", "part"], ["part"])
    assert (table.options["bucket"], table.options["changelog-producer"]) == ("1", "input")
    assert shop.rows("orders") == [
        {"id": 1, "name": "a**", "loud": "ANN", "part": "1"},
        {"id": 2, "name": "b**", "loud": "BOB", "part": "0"},
    ]


def test_a_star_includes_a_new_column(shop: Shop) -> None:
    rule = {"source-table": "shop.orders", "projection": "*, id * 10 as ten"}
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec(transform=[rule]))
    shop.put("2.json", insert("orders", {"id": 2, "q1": 7}))
    run(shop.spec(transform=[rule]))
    assert shop.rows("orders") == [{"id": 1, "ten": 10, "q1": None}, {"id": 2, "ten": 20, "q1": 7}]


def routed(shop: Shop, **more: Any) -> PipelineSpec:
    routes = [
        {"source-table": "shop.orders_([0-9]+)", "sink-table": "ods.orders", "add-columns": {"_shard": "$1"}},
        {"source-table": "shop.tmp_*", "sink-table": "scratch.{database}_{table}"},
        {"source-table": "shop.log", "sink-table": "ods.x_<>", "replace-symbol": "<>"},
    ]
    return shop.spec(route=routes, **more)


def test_routes_fill_names_from_groups_and_columns_from_shards(shop: Shop) -> None:
    shop.put(
        "1.json",
        insert("orders_1", {"id": 1}),
        insert("orders_22", {"id": 2}),
        insert("tmp_a", {"id": 3}),
        insert("log", {"id": 4}),
        insert("rest", {"id": 5}),
    )
    run(routed(shop))
    assert shop.rows("orders") == [{"id": 1, "_shard": "1"}, {"id": 2, "_shard": "22"}]
    assert (shop.ids("x_log"), shop.ids("rest")) == ([4], [5])
    assert shop.warehouse.tables("scratch") == ["scratch.shop_tmp_a"]


def test_shards_with_the_shard_in_the_key_do_not_conflict(shop: Shop) -> None:
    shop.put("1.json", insert("orders_1", {"id": 1}), insert("orders_2", {"id": 1}))
    run(routed(shop, sink={"primary-keys": "id,_shard"}))
    assert sorted(row["_shard"] for row in shop.rows("orders")) == ["1", "2"]


def test_without_a_database_tables_keep_the_database_of_the_source(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec(sink={"database": None}))
    run(shop.spec(sink={"database": None}))
    assert shop.warehouse.tables("shop") == ["shop.orders"]


def test_a_table_may_have_separate_options(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(shop.spec(sink={"per-table": {"ods.orders": {"bucket": "3"}}}))
    assert (shop.table("orders").options["bucket"], shop.table("users").options["bucket"]) == ("3", "2")


def grown(shop: Shop, behavior: str, **sink: Any) -> None:
    """A new column, and one whose type cannot be followed."""
    pipeline = {"schema.change.behavior": behavior}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}))
    run(shop.spec(pipeline=pipeline, sink=sink))
    new = insert("orders", {"id": 2, "q1": "7", "q2": 5}).replace('"q1": "int"', '"q1": "varchar(20)"')
    shop.put("2.json", new)
    run(shop.spec(pipeline=pipeline, sink=sink))


def test_exception_stops_at_any_schema_change_and_evolve_at_an_impossible_one(shop: Shop, tmp_path: Path) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec(pipeline={"schema.change.behavior": "exception"}))
    shop.put("2.json", insert("orders", {"id": 2, "q1": 1}))
    with pytest.raises(SchemaConflict, match="of this pipeline is to fail"):
        run(shop.spec(pipeline={"schema.change.behavior": "exception"}))
    with pytest.raises(SchemaConflict, match="Cannot convert field q1"):
        grown(Shop(tmp_path / "second"), "evolve")


def test_lenient_applies_possible_schema_changes_and_ignore_applies_no_change(shop: Shop, tmp_path: Path) -> None:
    grown(shop, "lenient")
    assert shop.rows("orders") == [{"id": 1, "q1": 1, "q2": None}, {"id": 2, "q1": 7, "q2": 5}]
    other = Shop(tmp_path / "second")
    grown(other, "ignore")
    assert other.rows("orders") == [{"id": 1, "q1": 1}, {"id": 2, "q1": 7}]


def test_kinds_of_schema_changes_can_be_excluded(shop: Shop) -> None:
    grown(shop, "lenient", **{"exclude.schema.changes": ["add.column"]})
    assert shop.rows("orders") == [{"id": 1, "q1": 1}, {"id": 2, "q1": 7}]
    shop.put("3.json", insert("users", {"id": 1}))
    with pytest.raises(SchemaConflict, match="may not create tables"):
        run(shop.spec(sink={"include.schema.changes": ["add.column"]}))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"transform": [{"source-table": "shop.orders", "filter": "uppper(name) = 'A'"}]}, "did you mean upper?"),
        ({"transform": [{"source-table": "shop.orders", "filter": "nobody = 1"}]}, "not a column of shop.orders"),
        ({"transform": [{"source-table": "orders"}]}, "does not name a table"),
        ({"route": [{"source-table": "shop.orders", "sink-table": "ods.$1"}]}, "no such group"),
        ({"route": [{"source-table": "shop.orders", "sink-table": "ods"}]}, "names no database"),
    ],
)
def test_an_invalid_rule_is_reported(shop: Shop, section: dict[str, Any], message: str) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    with pytest.raises(ConfigError) as caught:
        run(shop.spec(**section))
    assert message in str(caught.value)


def test_sections_are_read_from_a_file() -> None:
    spec = yaml_file.read("""
        pipeline: {schema.change.behavior: lenient}
        source: {type: files, path: in, value.format: canal-json}
        transform:
          - source-table: shop.users
            projection: "*, upper(country) as code"
            filter: "deleted = 0"
            mask: {email: sha256}
        route:
          - {source-table: "shop.*", sink-table: "ods.{table}"}
        sink: {catalog: {warehouse: /w}, per-table: {ods.orders: {bucket: "16"}}, exclude.schema.changes: [drop.table]}
        observe: {metrics: "127.0.0.1:9404", notify: {webhook: "${NO_SUCH_HOOK:-}", events: [stopped, lag>15m]}}
    """)
    assert (spec.transform[0].mask, spec.route[0].sink_table) == ({"email": "sha256"}, "ods.{table}")
    assert (spec.observe.metrics, spec.observe.notify.webhook) == ("127.0.0.1:9404", "${NO_SUCH_HOOK:-}")
    assert (spec.sink.database, spec.sink.exclude_schema_changes) == (None, ("drop.table",))


@pytest.mark.parametrize("action", ["drop", "dead-letter"])
def test_an_aggregate_refuses_to_undo_rows_that_a_quality_rule_may_have_left_out(shop: Shop, action: str) -> None:
    options = {"merge-engine": "aggregation", "fields.q1.aggregate-function": "sum", "bucket": "1"}
    rule = {"source-table": "shop.orders", "projection": "name, q1", "primary-keys": ["name"]}
    expect = {"source-table": "shop.orders", "condition": "q1 > 0", "action": action}
    sections: dict[str, Any] = {
        "transform": [rule],
        "sink": {"table-options": options},
        "errors": {"bad-record": "dead-letter"},
    }
    shop.put(
        "1.json", insert("orders", {"id": 1, "name": "a", "q1": 1}), insert("orders", {"id": 2, "name": "a", "q1": -9})
    )
    run(shop.spec(expect=[expect], **sections))
    assert [row["q1"] for row in shop.table("orders").scan().to_arrow().to_pylist()] == [1]
    shop.put("2.json", change("DELETE", "orders", {"id": 2, "name": "a", "q1": -9}))
    with pytest.raises(ConfigError, match="a quality rule may have left these rows out"):
        run(shop.spec(expect=[expect], **sections))
    # A filter is applied to old rows too, and a rule that only warns leaves nothing out.
    run(shop.spec(expect=[{**expect, "action": "warn"}], **{**sections, "transform": [{**rule, "filter": "q1 > 0"}]}))
    assert [row["q1"] for row in shop.table("orders").scan().to_arrow().to_pylist()] == [1]


def test_an_aggregate_that_ignores_old_rows_accepts_them_beside_a_quality_rule(shop: Shop) -> None:
    options = {"merge-engine": "aggregation", "fields.q1.aggregate-function": "sum", "bucket": "1"}
    sections: dict[str, Any] = {
        "transform": [{"source-table": "shop.orders", "projection": "name, q1", "primary-keys": ["name"]}],
        "sink": {"table-options": options | {"fields.q1.ignore-retract": "true"}},
        "expect": [{"source-table": "shop.orders", "condition": "q1 > 0", "action": "drop"}],
    }
    rows = [{"id": 1, "name": "a", "q1": 1}, {"id": 2, "name": "a", "q1": -9}]
    shop.put("1.json", *(insert("orders", row) for row in rows), change("DELETE", "orders", rows[1]))
    run(shop.spec(**sections))
    assert [row["q1"] for row in shop.table("orders").scan().to_arrow().to_pylist()] == [1]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("mask", ["keep-first(1)", "redact", "replace(x)", "null"])
def test_a_mask_that_makes_different_keys_equal_is_refused(shop: Shop, mask: str, exists: bool) -> None:
    rows = [{"id": 11, "name": "a"}, {"id": 12, "name": "b"}]
    shop.put("1.json", *(insert("orders", row) for row in rows))
    rule: dict[str, Any] = {"source-table": "shop.orders", "projection": "cast(id as string) as id, name"}
    if exists:
        run(shop.spec(transform=[rule]))
        shop.put("2.json", insert("orders", rows[0]))
    with pytest.raises(ConfigError, match=r"on 'id', a column of the table's key, makes one row of different rows"):
        run(shop.spec(transform=[{**rule, "mask": {"id": mask}}]))
    if not exists:
        run(shop.spec(transform=[{**rule, "mask": {"id": "sha256", "name": mask}}]))
        assert len({row["id"] for row in shop.rows("orders")}) == 2


def test_a_mask_may_make_the_keys_of_an_aggregate_equal(shop: Shop) -> None:
    options = {"merge-engine": "aggregation", "fields.q1.aggregate-function": "sum", "bucket": "1"}
    rule = {"source-table": "shop.orders", "projection": "name, q1", "primary-keys": ["name"]}
    shop.put("1.json", *(insert("orders", {"id": n, "name": f"a{n}", "q1": n}) for n in (1, 2)))
    run(shop.spec(transform=[{**rule, "mask": {"name": "keep-first(1)"}}], sink={"table-options": options}))
    assert shop.table("orders").scan().to_arrow().to_pylist() == [{"name": "a*", "q1": 3}]


def test_a_key_column_beside_the_key_of_the_source_may_be_masked(shop: Shop) -> None:
    rule = {"source-table": "shop.orders", "mask": {"name": "keep-first(1)"}, "partition-keys": ["name"]}
    shop.put("1.json", *(insert("orders", {"id": n, "name": f"a{n}"}) for n in (1, 2)))
    run(shop.spec(transform=[rule], sink={"primary-keys": ["id", "name"]}))
    assert shop.rows("orders") == [{"id": 1, "name": "a*"}, {"id": 2, "name": "a*"}]


def test_an_aggregate_refuses_old_rows_that_a_filter_by_the_time_may_have_left_out(shop: Shop) -> None:
    options = {"merge-engine": "aggregation", "fields.q1.aggregate-function": "sum", "bucket": "1"}
    rule = {"source-table": "shop.orders", "projection": "name, q1", "primary-keys": ["name"]}
    sections: dict[str, Any] = {
        "transform": [{**rule, "filter": "id < unix_timestamp()"}],
        "sink": {"table-options": options},
    }
    shop.put("1.json", insert("orders", {"id": 1, "name": "a", "q1": 1}))
    run(shop.spec(**sections))
    shop.put("2.json", change("DELETE", "orders", {"id": 1, "name": "a", "q1": 1}))
    with pytest.raises(ConfigError, match="its filter depends on the time at which a row is read"):
        run(shop.spec(**sections))
    run(shop.spec(**{**sections, "transform": [{**rule, "filter": "id < 9"}]}))
    assert [row["q1"] for row in shop.table("orders").scan().to_arrow().to_pylist()] == [0]


@pytest.mark.parametrize("sink", [{}, {"primary-keys": ["id"]}], ids=["transform", "transform and sink"])
def test_a_dropped_update_of_the_key_of_a_transform_deletes_the_row_under_the_old_key(
    shop: Shop, sink: dict[str, Any]
) -> None:
    rule = {"source-table": "shop.orders", "projection": "*, q1 % 2 as part", "primary-keys": ["id", "part"]}
    expect = {"source-table": "shop.orders", "condition": "q1 < 10", "action": "drop"}
    shop.put("1.json", *(insert("orders", {"id": number, "q1": number}) for number in (1, 2)))
    run(shop.spec(transform=[rule], expect=[expect], sink=sink))
    shop.put(
        "2.json",
        change("UPDATE", "orders", {"id": 1, "q1": 12}, old=[{"q1": "1"}]),
        change("UPDATE", "orders", {"id": 2, "q1": 14}, old=[{"q1": "2"}]),
    )
    run(shop.spec(transform=[rule], expect=[expect], sink=sink))
    assert [(row["id"], row["q1"]) for row in shop.rows("orders")] == [(2, 2)]
