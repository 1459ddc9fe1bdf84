"""A pipeline into a catalog of another kind: names from a server, tables anywhere, commits under its lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.check_places import check_checkpoint
from penstock.pipelines.commands.main import main
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.sink import default_checkpoint
from penstock.pipelines.mapping.target_tables import settings_of
from penstock.storage import catalog_options
from penstock.table.handle import Table
from tests.here import run
from tests.invariants import check_invariants
from tests.locked_catalog import METASTORES, Metastore, install
from tests.rest_server import running
from tests.shop import Shop, change, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def server(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metastore]:
    install(shop.folder / "site", monkeypatch)
    address = f"memory://{shop.folder}"
    yield METASTORES[address]
    del METASTORES[address]


def spec(shop: Shop, **sections: Any) -> PipelineSpec:
    options = {"place": f"{shop.folder}/places"}
    catalog = {"warehouse": f"memory://{shop.folder}", "metastore": "locked", "options": options}
    return shop.spec(sink={"catalog": catalog}, **sections)


def rows(shop: Shop, name: str) -> list[dict[str, Any]]:
    table = Table(settings_of(spec(shop).sink.catalog).opened(f"ods.{name}"))
    check_invariants(table)
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_tables_are_created_evolved_and_committed_by_the_catalog(shop: Shop, server: Metastore) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}), insert("users", {"id": 9}))
    run(spec(shop))
    shop.put(
        "2.json",
        insert("orders", {"id": 3, "name": "c", "q1": 7}),
        change("DELETE", "orders", {"id": 2, "name": "b"}),
    )
    run(spec(shop))
    assert rows(shop, "orders") == [{"id": 1, "name": "a", "q1": None}, {"id": 3, "name": "c", "q1": 7}]
    assert rows(shop, "users") == [{"id": 9}]
    assert sorted(server.snapshots) == [("ods.orders", 1), ("ods.orders", 2), ("ods.users", 1)]
    assert server.schemas == [("ods.orders", 1)]
    assert not list(shop.folder.rglob("*.db"))


def test_a_pipeline_follows_a_renamed_table(shop: Shop, server: Metastore) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    run(spec(shop))
    settings_of(spec(shop).sink.catalog).open().rename_table("ods.orders", "ods.sales")
    moved = {"orders": "sales"}
    catalog = {"warehouse": f"memory://{shop.folder}", "metastore": "locked"}
    options = {"place": f"{shop.folder}/places"}
    shop.put("2.json", insert("orders", {"id": 2, "name": "b"}))
    run(shop.spec(sink={"catalog": catalog | {"options": options}, "naming": {"table-mapping": moved}}))
    assert [row["id"] for row in rows(shop, "sales")] == [1, 2]


def test_commands_open_the_catalog_by_its_options(
    shop: Shop, server: Metastore, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    run(spec(shop))
    where = ["--warehouse", f"memory://{shop.folder}", "--catalog-conf", "metastore=locked"]
    where += ["--catalog-conf", f"place={shop.folder}/places"]
    assert main(["tables", *where, "--json"]) == 0
    assert [load["table"] for load in json.loads(capsys.readouterr().out)["tables"]] == ["ods.orders"]
    checkpoint = ["--checkpoint", f"{shop.folder}/checkpoint"]
    assert main(["status", "shop", *where, *checkpoint, "--json"]) == 0
    assert [load["table"] for load in json.loads(capsys.readouterr().out)["tables"]] == ["ods.orders"]
    assert main(["compact", *where, "--database", "ods", "--table", "orders"]) == 0
    assert server.snapshots[-1] == ("ods.orders", 2)


def test_a_metastore_that_is_not_installed_is_refused_in_a_file(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="metastore: locked is not supported"):
        spec(shop)


def test_a_pipeline_and_commands_use_a_jdbc_catalog(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    uri = f"jdbc:sqlite:{shop.folder}/names.db"
    catalog = {"warehouse": f"{shop.folder}/lake", "metastore": "jdbc", "options": {"uri": uri, "lock.enabled": "true"}}
    for number in (1, 2):
        shop.put(f"{number}.json", insert("Orders", {"id": number, "Name": "a"}))
        run(shop.spec(sink={"catalog": catalog}))
    where = ["--warehouse", f"{shop.folder}/lake", "--catalog-conf", "metastore=jdbc", "--catalog-conf", f"uri={uri}"]
    assert main(["tables", *where, "--json"]) == 0
    assert [table["table"] for table in json.loads(capsys.readouterr().out)["tables"]] == ["ods.orders"]
    table = settings_of(shop.spec(sink={"catalog": catalog}).sink.catalog).open().table("ods.orders")
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]
    check_invariants(table)


@pytest.mark.slow
def test_a_pipeline_and_commands_use_a_rest_catalog(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    with running(shop.folder / "files") as (theirs, options):
        given = {name: text for name, text in options.items() if name != "metastore"}
        catalog = {"warehouse": "lake", "metastore": "rest", "options": given}
        shop.put("1.json", insert("Orders", {"id": 1, "name": "a"}))
        run(shop.spec(sink={"catalog": catalog}))
        shop.put("2.json", insert("Orders", {"id": 2, "name": "b", "q1": 7}))
        run(shop.spec(sink={"catalog": catalog}))
        where = ["--warehouse", "lake", *(f"--catalog-conf={name}={text}" for name, text in options.items())]
        assert main(["tables", *where, "--json"]) == 0
        assert [table["table"] for table in json.loads(capsys.readouterr().out)["tables"]] == ["ods.Orders"]
        checkpoint = ["--checkpoint", f"{shop.folder}/checkpoint"]
        assert main(["status", "shop", *where, *checkpoint, "--json"]) == 0
        assert [table["table"] for table in json.loads(capsys.readouterr().out)["tables"]] == ["ods.Orders"]
        assert main(["sql", "SELECT id FROM ods.Orders ORDER BY id", *where, "--output", "csv"]) == 0
        assert capsys.readouterr().out.split() == ["id", "1", "2"]
        assert main(["compact", *where, "--database", "ods", "--table", "Orders"]) == 0
        table = settings_of(shop.spec(sink={"catalog": catalog}).sink.catalog).open().table("ods.Orders")
        assert table.schema.names == ["id", "name", "q1"]
        assert table.scan(columns=["id"]).to_arrow().sort_by("id")["id"].to_pylist() == [1, 2]
        check_invariants(table)
        assert [path.rpartition("/")[2] for method, path, _ in theirs.requests if method == "POST"].count("commit") == 3


def test_a_pipeline_into_a_rest_catalog_names_its_checkpoint(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.folder)
    options = {"uri": "http://127.0.0.1:1", "token": "t"}
    catalog = {"warehouse": "lake", "metastore": "rest", "options": options}
    without = shop.spec(sink={"catalog": catalog}, pipeline={"checkpoint": None})
    with pytest.raises(ConfigError, match="the checkpoint of the pipeline has no place"):
        _ = without.checkpoint
    assert main(["status", "shop", "--warehouse", "lake", "--catalog-conf", "metastore=rest"]) == 2
    assert "--checkpoint" in capsys.readouterr().err
    assert not (shop.folder / "lake").exists()


@pytest.mark.usefixtures("server")
def test_a_kind_of_another_package_declares_its_names_its_warehouse_and_its_options(shop: Shop) -> None:
    options = {"place": f"{shop.folder}/places", "local.sync": "false"}
    catalog = {"warehouse": "lake", "metastore": "lower", "options": options}
    checkpoint = f"{shop.folder}/checkpoint"
    given = shop.spec(sink={"catalog": catalog}, pipeline={"checkpoint": checkpoint}).sink.catalog
    assert given.case_sensitive is False
    assert given.store_options == {"local.sync": "false"}
    with pytest.raises(ConfigError, match="case-sensitive: True is not supported by metastore: lower"):
        shop.spec(sink={"catalog": catalog | {"case-sensitive": True}}, pipeline={"checkpoint": checkpoint})
    with pytest.raises(ConfigError, match="the warehouse of metastore = lower is not a folder"):
        default_checkpoint("lake", "lower", "shop")


@pytest.mark.parametrize("written", ["case-sensitive", "case_sensitive"])
def test_a_kind_with_lower_case_names_refuses_case_sensitive(shop: Shop, written: str) -> None:
    catalog = {"warehouse": str(shop.folder), "metastore": "jdbc", "options": {"uri": "jdbc:sqlite:/names.db"}}
    assert shop.spec(sink={"catalog": catalog}).sink.catalog.case_sensitive is False
    assert shop.spec(sink={"catalog": catalog | {written: False}}).sink.catalog.case_sensitive is False
    with pytest.raises(ConfigError, match=rf"{written}: True is not supported by metastore: jdbc"):
        shop.spec(sink={"catalog": catalog | {written: True}})


def test_the_login_of_a_jdbc_catalog_is_not_shown(shop: Shop) -> None:
    options = {"uri": "jdbc:mysql://host/names?user=me&password=hunter2", "jdbc.password": "hunter3"}
    shown = repr(shop.spec(sink={"catalog": {"warehouse": "/lake", "metastore": "jdbc", "options": options}}))
    assert "host/names" in shown
    assert "hunter" not in shown


def test_a_checkpoint_does_not_receive_the_options_of_the_catalog(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    catalog_options._warn.cache_clear()
    options = {"uri": f"jdbc:sqlite:{shop.folder}/names.sqlite", "lock.enabled": "true", "local.sync": "false"}
    given = shop.spec(sink={"catalog": {"warehouse": f"{shop.folder}/lake", "metastore": "jdbc", "options": options}})
    assert given.sink.catalog.store_options == {"local.sync": "false"}
    assert list(check_checkpoint(given))
    assert "catalog_option_without_effect" not in caplog.text
