"""The names and constant columns that a route makes from the names of a source table."""

from __future__ import annotations

import pytest

from penstock.pipelines.config.rules import RouteConfig
from penstock.pipelines.mapping.routes import Route


@pytest.mark.parametrize(
    ("table", "target", "constant"),
    [
        ("v1", "ods.v1", "crm v1 v1"),
        ("v$1", "ods.v$1", "crm v$1 v$1"),
        ("v{database}", "ods.v{database}", "crm v{database} v{database}"),
    ],
)
def test_names_of_a_source_are_used_as_they_are(table: str, target: str, constant: str) -> None:
    """Whatever they contain: MySQL, Oracle and PostgreSQL allow `$` in names."""
    columns = {"origin": "{database} {table} $1"}
    given = {"source-table": "crm.(v.*)", "sink-table": "ods.<>", "replace-symbol": "<>", "add-columns": columns}
    route = Route.of(RouteConfig.model_validate(given))
    assert route.target("crm", table) == target
    assert route.constants("crm", table) == (("origin", constant),)


def test_a_group_of_two_digits_differs_from_one_of_a_single_digit() -> None:
    pattern = "crm." + "".join(f"({letter})" for letter in "abcdefghijk")
    route = Route.of(RouteConfig.model_validate({"source-table": pattern, "sink-table": "ods.$11_$1"}))
    assert route.target("crm", "abcdefghijk") == "ods.k_a"
