"""The target table decides which row images of an update are decoded."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.formats.change import DecodeOptions, ImageRule, SourceSchema
from penstock.ingest.mysql.binlog.options import BinlogOptions as BinlogOptions
from penstock.ingest.mysql.definition import TableDefinition
from penstock.pipelines.job import build
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def orders(options: dict[str, str]) -> TableSchema:
    columns = [("id", "BIGINT"), ("day", "STRING"), ("total", "BIGINT")]
    return create_schema(columns, ["id", "day"], ["day"], {"bucket": "1"} | options, now=0)


def options_of(shop: Shop, **known: TableSchema) -> DecodeOptions:
    mapping = build.job(shop.spec()).mapping
    return mapping.decode_options({f"ods.{name}": schema for name, schema in known.items()})


@pytest.mark.parametrize(
    ("options", "images"),
    [
        ({}, "key-changes"),
        ({"changelog-producer": "input"}, "all"),
        ({"merge-engine": "aggregation", "fields.total.aggregate-function": "sum"}, "all"),
    ],
)
def test_before_images_are_decoded_for_tables_that_need_them(shop: Shop, options: dict[str, str], images: str) -> None:
    found = options_of(shop, orders=orders(options)).rule("shop", "orders", ("id",))
    assert found.before_images == images
    assert {"id", "day"} <= found.watch, "an update that changes its partition must become a delete and an insert"


def test_columns_that_no_source_has_are_not_watched(shop: Shop) -> None:
    sink = {"computed-columns": ["year=substring(day, 0, 4)"], "metadata-columns": ["table_name"]}
    mapping = build.job(shop.spec(sink=sink)).mapping
    assert isinstance(mapping, PipelineMapping)
    columns = [("id", "BIGINT"), ("day", "STRING"), ("year", "STRING"), ("table_name", "STRING")]
    keys = ["id", "year", "table_name"]
    table = create_schema(columns, keys, ["year", "table_name"], {"bucket": "1"}, now=0)
    found = mapping.decode_options({"ods.orders": table}).rule("shop", "orders", ("id",))
    assert {name.lower() for name in found.watch} == {"id", "day"}
    for own, needed in (("id",), True), (("id", "day"), False):
        assert mapping.needs_before_images(SourceSchema("text", "shop", "orders", (), own), table) is needed


def test_deletes_need_the_sequence_field_unless_they_are_ignored(shop: Shop) -> None:
    ordered = {"sequence.field": "total"}
    assert options_of(shop, orders=orders(ordered)).rule("shop", "orders", ("id",)).sequence == {"total"}
    ignored = ordered | {"ignore-delete": "true"}
    assert options_of(shop, orders=orders(ignored)).rule("shop", "orders", ("id",)).sequence == set()


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_deletes_keep_their_values_in_tables_whose_deleted_rows_stay(shop: Shop, deletes: str) -> None:
    mapping = build.job(shop.spec(sink={"deletes": deletes})).mapping
    options = mapping.decode_options({"ods.orders": orders({})})
    for table in ("orders", "users"):
        assert options.rule("shop", table, ("id",)).keeps_deleted is (deletes == "soft")


def test_a_new_table_watches_the_key_of_its_source(shop: Shop) -> None:
    options = options_of(shop, orders=orders({"changelog-producer": "input"}))
    assert options.rule("shop", "users", ("id",)) == ImageRule("key-changes", frozenset({"id"}))
    assert options.rule(None, None, ("id",)) == ImageRule("key-changes", frozenset({"id"}))


def test_the_binlog_uses_the_policy_of_the_table(shop: Shop) -> None:
    policy = pickle.loads(pickle.dumps(options_of(shop, orders=orders({"changelog-producer": "input"}))))
    definition = TableDefinition("shop", "orders", (), ("id",))
    assert BinlogOptions(policy=policy).image_rule(definition) == policy.rule("shop", "orders", ("id",))
    own = ImageRule("key-changes", frozenset({"total"}))
    assert BinlogOptions(policy=policy, images={("shop", "orders"): own}).image_rule(definition) == own
    assert BinlogOptions().image_rule(definition) == ImageRule("all", frozenset({"id"}))
