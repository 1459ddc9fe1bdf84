"""A catalog with further tables by path: what it does not add is the work of the catalog behind it."""

from __future__ import annotations

from penstock.table.catalog.base import CatalogBackend
from penstock.table.catalog.tables_by_path import TablesByPath


def test_each_method_of_a_catalog_is_passed_on() -> None:
    methods = {name for name in vars(CatalogBackend) if not name.startswith("_")}
    assert methods <= vars(TablesByPath).keys(), "a method of the base class would hide that of the real catalog"
