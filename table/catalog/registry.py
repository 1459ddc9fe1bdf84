"""The kinds of catalogs, by the value of the catalog option `metastore`.

Other packages add kinds by entry points of the group `penstock.catalogs`: the name of the entry point is the value of
`metastore`, and it refers to a function that is called with the warehouse, the catalog options and an Environment, and
returns a CatalogBackend.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from penstock.references import resolve
from penstock.storage.catalog_options import metastore_unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from penstock.storage.environment import Environment
    from penstock.table.catalog.base import CatalogBackend

GROUP = "penstock.catalogs"
OPTION = "metastore"
DEFAULT = "filesystem"
# A kind is imported when it is used: its client may be an optional dependency.
_OWN = {
    DEFAULT: ("penstock.table.catalog.file_catalog", "open_warehouse"),
    "hive": ("penstock.table.catalog.hive_options", "open_hive"),
    "jdbc": ("penstock.table.catalog.jdbc_options", "open_jdbc"),
    "rest": ("penstock.table.catalog.rest_catalog", "open_rest"),
}
# Kinds in which names are lower case; the option `case-sensitive` does not change that.
LOWER_CASE = frozenset({"hive", "jdbc"})
# Kinds whose warehouse is a name in a server, and not a folder.
NAMED_WAREHOUSE = frozenset({"rest"})


class CatalogOpener(Protocol):
    """A function that opens the catalog of one kind."""

    def __call__(self, warehouse: str, options: Mapping[str, str], ambient: Environment) -> CatalogBackend: ...


def metastores() -> list[str]:
    """Return the supported values of the option `metastore`."""
    return sorted({*_OWN, *_installed().names})


def open_backend(warehouse: str, options: Mapping[str, str], ambient: Environment) -> CatalogBackend:
    """Open a catalog of the kind that the options name. ConfigError when no such kind is installed.

    Own kinds keep references to secrets as they are until a client connects, because the stores of tables are pickled.
    """
    name = options.get(OPTION, DEFAULT).strip().lower()
    given = options if name in _OWN else {key: resolve(value) for key, value in options.items()}
    return _kind(name)(warehouse, given, ambient)


def _kind(name: str) -> CatalogOpener:
    if name in _OWN:
        module, function = _OWN[name]
        own: CatalogOpener = getattr(import_module(module), function)
        return own
    for found in _installed().select(name=name):
        installed: CatalogOpener = found.load()
        return installed
    raise metastore_unknown(name, metastores())


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # slow to import, and not needed for folders

    return entry_points(group=GROUP)
