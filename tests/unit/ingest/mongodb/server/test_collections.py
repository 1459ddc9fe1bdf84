"""The collections that a server lists, as far as they can be captured."""

from __future__ import annotations

from typing import Any, cast

import pytest
from bson import Binary

from penstock.ingest.database.settings import CapturedTables
from penstock.ingest.mongodb.server.checks import check_images
from penstock.ingest.mongodb.server.collections import Collection, databases, row_count, selected_collections
from penstock.ingest.mongodb.server.connection import MongoConnection

LISTED: dict[str, list[dict[str, Any]]] = {
    "shop": [
        {
            "name": "users",
            "info": {"uuid": Binary(b"\x01\x02", 4)},
            "options": {"changeStreamPreAndPostImages": {"enabled": True}},
        },
        {"name": "orders", "info": {"uuid": Binary(b"\x03\x04", 4)}},
        {"name": "open_orders", "type": "view"},
        {"name": "clicks", "type": "timeseries"},
        {"name": "system.views"},
    ],
    "crm": [{"name": "leads"}],
    "admin": [{"name": "secrets"}],
    "local": [{"name": "oplog.rs"}],
    "config": [{"name": "shards"}],
}


class Server:
    """A connection to a server with these collections. Remembers the databases that were listed."""

    session = "the session"

    def __init__(self) -> None:
        self.listed: list[str] = []

    @property
    def client(self) -> Server:
        return self

    def __getitem__(self, database: str) -> Server:
        self.listed.append(database)
        return self

    def list_collections(self, session: object) -> list[dict[str, Any]]:
        assert session == "the session", "cursors must be read in the session that opened them"
        return LISTED[self.listed[-1]]

    def command(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
        if "listDatabases" in command:
            return {"databases": [{"name": name} for name in LISTED]}
        return {"n": {("shop", "orders"): 3.0}[database, command["count"]]}


def connection(server: Server) -> MongoConnection:
    return cast("MongoConnection", server)


@pytest.mark.parametrize("tables", [CapturedTables(), CapturedTables(databases="shop|crm|admin|local|config")])
def test_databases_of_the_server_itself_are_never_captured(tables: CapturedTables) -> None:
    server = Server()
    assert databases(connection(server)) == ["shop", "crm"]
    found = selected_collections(connection(server), tables, None)
    assert {collection.database for collection in found} == {"shop", "crm"}


def test_collections_come_by_name_without_those_of_the_server() -> None:
    found = selected_collections(connection(Server()), CapturedTables(databases="shop"), "shop")
    assert [collection.name for collection in found] == ["clicks", "open_orders", "orders", "users"]


def test_only_the_named_database_is_listed() -> None:
    server = Server()
    selected_collections(connection(server), CapturedTables(databases="shop", tables="orders"), "shop")
    assert server.listed == ["shop"]


def test_views_and_time_series_have_no_stream() -> None:
    found = selected_collections(connection(Server()), CapturedTables(tables=".*s"), None)
    assert {collection.name: collection.has_stream for collection in found} == {
        "clicks": False, "open_orders": False, "orders": True, "users": True, "leads": True,
    }  # fmt: skip


def test_identity_is_that_of_the_server_if_it_has_one() -> None:
    found = selected_collections(connection(Server()), CapturedTables(tables="orders|leads"), None)
    assert {collection.table: collection.identity for collection in found} == {
        ("shop", "orders"): "0304",
        ("crm", "leads"): "",
    }


def test_collections_without_images_are_named_with_the_command_that_keeps_them() -> None:
    found = selected_collections(connection(Server()), CapturedTables(tables="users"), "shop")
    assert check_images(found) == []
    (warning,) = check_images(selected_collections(connection(Server()), CapturedTables(tables="orders|leads"), None))
    assert warning.level == "warning"
    assert "shop.orders, crm.leads" in warning.problem
    assert 'collMod: "orders", changeStreamPreAndPostImages: {enabled: true}' in warning.fix
    (many,) = check_images([Collection("shop", f"c{number}", "collection", "") for number in range(7)])
    assert many.seen.endswith("shop.c4 and 2 others")


def test_count_is_a_whole_number() -> None:
    assert repr(row_count(connection(Server()), ("shop", "orders"))) == "3"
