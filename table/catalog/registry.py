"""The kinds of catalogs, by the value of the catalog option `metastore`.

Other packages add kinds by entry points of the group `penstock.catalogs`: the name of the entry point is the value of
`metastore`, and it refers to a function that is called with the warehouse, the catalog options and an Ambient, and
returns a CatalogBackend.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from penstock.storage.catalog_options import metastore_unknown

if TYPE_CHECKING:
    from penstock.storage.environment import Ambient
    from penstock.table.catalog.base import CatalogBackend

GROUP = "penstock.catalogs"
OPTION = "metastore"
DEFAULT = "filesystem"
# A kind is imported when it is used: its client may be an optional dependency.
_OWN = {DEFAULT: "penstock.table.catalog.file_catalog:FileCatalog.at"}


def metastores() -> list[str]:
    """Return the supported values of the option `metastore`."""
    return sorted({*_OWN, *(found.name for found in entry_points(group=GROUP))})


def open_backend(warehouse: str, options: Mapping[str, str], ambient: Ambient) -> CatalogBackend:
    """Open a catalog of the kind that the options name. ConfigError when no such kind is installed."""
    kind = options.get(OPTION, DEFAULT).strip().lower()
    backend: CatalogBackend = _entry_point(kind).load()(warehouse, options, ambient)
    return backend


def _entry_point(kind: str) -> EntryPoint:
    if kind in _OWN:
        return EntryPoint(kind, _OWN[kind], GROUP)
    for found in entry_points(group=GROUP, name=kind):
        return found
    raise metastore_unknown(kind)
