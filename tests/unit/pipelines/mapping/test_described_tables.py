"""Target tables of described source tables: planned, all of them, before the first is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.formats.change import SourceField, SourceSchema
from penstock.pipelines.api.findings import of_error
from penstock.pipelines.commands.main import shown
from penstock.pipelines.job import build
from penstock.pipelines.mapping.described_tables import plan_described
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def schema(table: str, *columns: str) -> SourceSchema:
    fields = tuple(SourceField(name, "int") for name in ("id", *columns))
    return SourceSchema("mysql", "shop", table, fields, ("id",))


def made(shop: Shop, *found: SourceSchema, **sink: Any) -> list[str]:
    spec = shop.spec(sink=sink)
    mapping = build.mapping_of(spec, shop.warehouse)
    made = plan_described(found, spec.sink, mapping, shop.warehouse, checks=True, isolate=False)
    made.create(spec.sink, shop.warehouse)
    return sorted(".".join(name) for name in made.left_out)


def test_tables_that_cannot_be_created_are_left_out_together(shop: Shop) -> None:
    assert made(shop, schema("a"), schema("b$"), schema("c", "rowkind")) == ["shop.b$", "shop.c"]
    assert shop.warehouse.tables("ods") == ["ods.a"]


def test_nothing_is_created_when_no_table_can_be(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="2 tables cannot be created") as caught:
        made(shop, schema("b$"), schema("c", "rowkind", "_LEVEL"))
    assert list(caught.value.facts) == ["ods.b$", "ods.c"]
    assert "'rowkind', '_LEVEL'" in str(caught.value.facts["ods.c"])
    assert "ods" not in shop.warehouse.databases()


def test_errors_of_several_tables_name_each_of_them_as_it_is_called(shop: Shop) -> None:
    with pytest.raises(ConfigError) as caught:
        made(shop, schema("b_1$"), schema("b 1$"))
    assert "ods.b_1$: " in str(caught.value)
    for printed in (shown(caught.value), of_error("sink", caught.value).message):
        assert "ods.b_1$" in printed
        assert "ods.b 1$" in printed


def test_options_that_fit_only_some_tables_are_refused_before_any_is_created(shop: Shop) -> None:
    options = {"table-options": {"bucket": "1", "sequence.field": "v"}}
    with pytest.raises(ConfigError, match="2 tables cannot be created") as caught:
        made(shop, schema("a", "v"), schema("b"), schema("c"), **options)
    assert list(caught.value.facts) == ["ods.b", "ods.c"]
    assert "ods" not in shop.warehouse.databases()
    with pytest.raises(ConfigError, match="sequence") as caught:
        made(shop, schema("a", "v"), schema("b"), **options)
    assert caught.value.facts["table"] == "ods.b"
