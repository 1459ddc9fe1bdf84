"""Existing tables with a freshness whose options ask for a snapshot with every batch are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.check_places import check_tables
from penstock.pipelines.config.table_freshness import FORCED
from penstock.pipelines.job.forced_snapshots import refuse_forced
from penstock.table.catalog.catalog import Catalog
from penstock.table.schema.changes import SetOption
from tests.deferred_shop import SLOW, DeferredShop, row


def test_a_deferred_table_that_exists_must_not_ask_for_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = DeferredShop(tmp_path, monkeypatch).start(SLOW)
    shop.topics.put(row("slow", 1), row("fast", 1))
    shop.batch()
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.alter_table("ods.fast", [SetOption(FORCED, "true")])
    list(check_tables(shop.spec))  # a table that is not deferred may have the option
    catalog.alter_table("ods.slow", [SetOption(FORCED, "true")])
    with pytest.raises(ConfigError, match="snapshot of a table with every batch") as refused:
        list(check_tables(shop.spec))
    assert refused.value.facts["tables"] == "ods.slow"
    assert str(refused.value.hint).startswith('penstock sql "ALTER TABLE ods.slow RESET')


def test_a_table_that_a_route_names_is_refused_before_its_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = [{**SLOW, "sink-table": "ods.slow"}, {"source-table": "shop.fast", "sink-table": "ods.quick"}]
    shop = DeferredShop(tmp_path, monkeypatch).start(*routes)
    warehouse = shop.driver.reader.warehouse
    refuse_forced(shop.spec, {}, warehouse)  # it does not exist
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("ods", ignore_if_exists=True)
    catalog.create_table("ods.slow", [("id", "BIGINT")], options={FORCED: "true"})
    catalog.create_table("ods.quick", [("id", "BIGINT")], options={FORCED: "true"})
    with pytest.raises(ConfigError) as refused:
        refuse_forced(shop.spec, {}, warehouse)
    assert refused.value.facts["tables"] == "ods.slow"
