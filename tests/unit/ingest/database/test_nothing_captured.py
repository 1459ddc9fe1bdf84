"""The error of a server without a selected table names the table that was probably meant."""

from __future__ import annotations

import pytest

from penstock.ingest.connector_requests import TableSelection
from penstock.ingest.database.nothing_captured import nothing_captured
from penstock.ingest.database.settings import CapturedTables

SEEN = [("shop", "orders"), ("shop", "users"), ("crm", "users")]


def selected(databases: str = ".*", tables: str = ".*", names: tuple[str, ...] = ()) -> CapturedTables:
    return CapturedTables.selected(databases, tables, TableSelection(), names, ())


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (selected("shopp"), "shop"),
        (selected("shop", "ordrs"), "orders"),
        (CapturedTables(including="ordrs"), "orders"),
        (selected(names=("shop.order",)), "shop.orders"),
        (selected(names=("shop.zzz", "shp.users")), "shop.users"),
    ],
)
def test_the_hint_begins_with_the_nearest_name(given: CapturedTables, meant: str) -> None:
    error = nothing_captured(given, SEEN, [], "names are regular expressions")
    assert error.hint == f"did you mean {meant}? names are regular expressions"


@pytest.mark.parametrize("given", [selected("warehouse"), selected("shop", "t_[0-9]+"), selected()])
def test_names_that_are_not_similar_are_not_suggested(given: CapturedTables) -> None:
    assert nothing_captured(given, SEEN, [], "grant SELECT").hint == "grant SELECT"


def test_names_of_a_list_are_shown_as_they_were_written() -> None:
    facts = nothing_captured(selected(names=("shop.ordes", r"shop.t_\d+")), SEEN, [], "").facts
    assert facts["tables"] == r"shop.ordes; shop.t_\d+"
    assert facts["seen"] == "shop.orders, shop.users, crm.users"


def test_tables_without_a_key_are_named_and_no_other_table_is_suggested() -> None:
    error = nothing_captured(selected("shop", "nokey"), SEEN, ["shop.nokey"], "add a key", "schemas")
    assert error.message == "none of the selected tables has a primary key"
    assert (error.facts["schemas"], error.facts["without_key"], error.hint) == ("shop", "shop.nokey", "add a key")
