"""The options of a REST catalog, and what the server decides: places, kinds of tables, permissions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.catalog.rest_replies import RestMissing
from penstock.table.meta.store import TableMissing
from penstock.table.sql.interpreter import Interpreter
from tests.rest_server import Fault, RestCatalogServer, running

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[RestCatalogServer, dict[str, str]]]:
    with running(tmp_path / "files") as found:
        yield found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uri": ""}, "a REST catalog needs a uri"),
        ({"token": ""}, "a REST catalog needs a token"),
        ({"case-sensitive": "false"}, "case-sensitive = false is not supported"),
        ({"tokens": "a"}, "'tokens' is not an option of a rest catalog"),
        ({"s3.acces-key": "a"}, "'s3.acces-key'"),
        ({"table.type": "external"}, "table.type = external is not supported"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, str], message: str) -> None:
    options = {"metastore": "rest", "uri": "http://host", "token.provider": "bear", "token": "t"} | given
    with pytest.raises(ConfigError, match=message):
        penstock.Catalog("lake", {name: text for name, text in options.items() if text})


def test_no_request_is_sent_before_it_is_needed() -> None:
    penstock.Catalog("lake", {"metastore": "rest", "uri": "http://127.0.0.1:1", "token": "t"})


def test_options_of_other_kinds_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    options = {"metastore": "rest", "uri": "http://host", "token": "t", "lock.enabled": "true"}
    with caplog.at_level(logging.WARNING):
        penstock.Catalog("lake", options)
    assert "lock.enabled" in caplog.text


@pytest.mark.slow
def test_an_unknown_warehouse_is_the_servers_word(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    with pytest.raises(ConfigError, match="there is no such warehouse"):
        penstock.Catalog("other", lake[1]).databases()


@pytest.mark.slow
def test_sys_tables_has_the_times_and_users_of_the_server(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    catalog = penstock.Catalog("lake", lake[1])
    catalog.create_database("shop")
    catalog.create_table("shop.t", COLUMNS, ["id"])
    with Interpreter(catalog, "shop") as interpreter:
        (found,) = interpreter.run("SELECT owner, created_at, created_by, updated_at, updated_by FROM sys.tables")
    assert [tuple(row.values()) for row in found.to_pylist()] == [("tests", 1, "tests", 1, "tests")]


@pytest.mark.slow
def test_tables_of_other_formats_are_neither_listed_nor_opened(
    lake: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    server, options = lake
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    catalog.create_table("shop.orders", COLUMNS)
    catalog.create_table("shop.csv", COLUMNS)
    server.tables["shop", "csv"].kind = "format-table"
    catalog.alter_table("shop.csv", [penstock.SetOption("penstock.note", "as a server describes it")])
    schema = next((Path(server.tables["shop", "csv"].folder) / "schema").glob("schema-1"))
    schema.write_text(
        schema.read_text().replace('"penstock.note" : "as a server describes it"', '"type" : "format-table"')
    )
    assert catalog.tables("shop") == ["orders"]
    assert not catalog.table_exists("shop.csv")
    with pytest.raises(TableMissing, match="the table is not a Paimon table"):
        catalog.table("shop.csv")
    with pytest.raises(TableMissing, match="the table is not a Paimon table"):
        catalog.create_table("shop.csv", COLUMNS)


@pytest.mark.slow
def test_what_the_server_forbids_is_an_error_and_not_an_absence(
    lake: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    server, options = lake
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    catalog.create_table("shop.orders", COLUMNS)
    server.forbidden = {"shop.orders"}
    for ask in (catalog.table_exists, catalog.table, catalog.drop_table):
        with pytest.raises(ConfigError, match="no permission for table orders"):
            ask("shop.orders")
    server.forbidden = {"shop"}
    with pytest.raises(ConfigError, match="no permission for database shop"):
        catalog.tables("shop")


@pytest.mark.slow
def test_the_database_of_a_table_is_created_with_it(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    from penstock.table.schema.new_schema import create_schema

    catalog = penstock.Catalog("lake", lake[1])
    schema = create_schema(COLUMNS, (), (), {}, None, now=1)
    assert catalog.backend.create_table("shop.orders", schema)
    assert not catalog.backend.create_table("shop.orders", schema)
    assert catalog.tables("shop") == ["orders"]


@pytest.mark.slow
def test_a_table_is_not_created_a_third_time_after_not_found(
    lake: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    """The requests were repeated until Python's stack was full."""
    server, options = lake
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    asked: list[str] = []
    server.faults.append(Fault("POST", "/tables", status=404, times=-1, before=lambda: asked.append("tables")))
    with pytest.raises(RestMissing):
        catalog.create_table("shop.orders", COLUMNS)
    assert len(asked) == 2


@pytest.mark.slow
def test_a_table_of_a_server_is_where_the_server_says(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    server, options = lake
    catalog = penstock.Catalog("lake", options)
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", COLUMNS)
    assert table.path == server.tables["shop", "orders"].folder
    catalog.rename_table("shop.orders", "shop.sales")
    assert catalog.table("shop.sales").path == table.path
    catalog.drop_table("shop.sales")
    assert not Path(table.path).exists()


@pytest.mark.slow
def test_a_database_has_the_properties_and_the_place_of_the_server(
    lake: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    catalog = penstock.Catalog("lake", lake[1])
    catalog.create_database("shop", properties={"team": "sales"})
    assert catalog.database_properties("shop") == {"team": "sales", "location": str(lake[0].folder)}


def test_a_missing_database_is_no_wrong_path(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    catalog = penstock.Catalog("lake", lake[1])
    with pytest.raises(TableMissing) as caught:
        catalog.table("shop.orders")
    assert caught.value.hint == "there is no database shop"


@pytest.mark.slow
def test_a_check_says_what_answers(lake: tuple[RestCatalogServer, dict[str, str]]) -> None:
    assert penstock.Catalog("lake", lake[1]).backend.check() == f"{lake[1]['uri']} answers and has 0 databases in lake"
    lake[0].faults.append(Fault("GET", "/databases", 403))
    with pytest.raises(ConfigError, match="refused a request"):
        penstock.Catalog("lake", lake[1]).backend.check()
