"""The kinds of catalogs, by the value of the catalog option `metastore`.

Other packages add kinds by entry points of the group `penstock.catalogs`: the name of the entry point is the value of
`metastore`, and it refers to a `CatalogKind`, or to a function that opens the catalog if its kind has no properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from penstock.extensions import loaded
from penstock.references import resolve
from penstock.storage.catalog_options import is_catalog_option, metastore_unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from penstock.storage.environment import Environment
    from penstock.table.catalog.base import CatalogBackend

GROUP = "penstock.catalogs"
OPTION = "metastore"
DEFAULT = "filesystem"


class CatalogOpener(Protocol):
    """A function that opens the catalog of one kind."""

    def __call__(self, warehouse: str, options: Mapping[str, str], ambient: Environment) -> CatalogBackend: ...


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """A kind of catalog: the function that opens it, and the properties that are needed before.

    `is_lower_case`: names are lower case, and the option `case-sensitive` does not change that. `names_warehouse`: the
    warehouse is a name in a server and not a folder, so a pipeline has to name its checkpoint. `options` and
    `prefixes` are the names, and beginnings of names, of options that this kind reads itself: a store beside the
    catalog, such as that of a checkpoint, does not receive them.
    """

    open: CatalogOpener
    is_lower_case: bool = False
    names_warehouse: bool = False
    options: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Imported:
    """An opener that is imported when it is used: its client may be an optional dependency."""

    module: str
    function: str

    def __call__(self, warehouse: str, options: Mapping[str, str], ambient: Environment) -> CatalogBackend:
        opener: CatalogOpener = getattr(import_module(f"penstock.table.catalog.{self.module}"), self.function)
        return opener(warehouse, options, ambient)


# `storage/catalog_options.py` lists the options of these kinds.
_OWN = {
    DEFAULT: CatalogKind(_Imported("file_catalog", "open_warehouse")),
    "hive": CatalogKind(_Imported("hive_options", "open_hive"), is_lower_case=True),
    "jdbc": CatalogKind(_Imported("jdbc_options", "open_jdbc"), is_lower_case=True),
    "rest": CatalogKind(_Imported("rest_catalog", "open_rest"), names_warehouse=True),
}


def metastores() -> list[str]:
    """Return the supported values of the option `metastore`."""
    return sorted({*_OWN, *_installed().names})


def catalog_kind(metastore: str) -> CatalogKind:
    """Return the kind of catalog of this name. ConfigError when no such kind is installed, or it cannot be imported."""
    name = metastore.strip().lower()
    if name in _OWN:
        return _OWN[name]
    for found in _installed().select(name=name):
        installed: CatalogKind | CatalogOpener = loaded(found)
        return installed if isinstance(installed, CatalogKind) else CatalogKind(installed)
    raise metastore_unknown(name, metastores())


def open_backend(warehouse: str, options: Mapping[str, str], ambient: Environment) -> CatalogBackend:
    """Open a catalog of the kind that the options name. ConfigError when no such kind is installed.

    Own kinds keep references to secrets as they are until a client connects, because the stores of tables are pickled.
    """
    name = options.get(OPTION, DEFAULT)
    is_own = name.strip().lower() in _OWN
    given = options if is_own else {key: resolve(value) for key, value in options.items()}
    return catalog_kind(name).open(warehouse, given, ambient)


def options_of_store(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for stores beside the catalog: all that are not read by the catalog itself."""
    kind = catalog_kind(options.get(OPTION, DEFAULT))
    return {
        name: value
        for name, value in options.items()
        if not (is_catalog_option(name) or name in kind.options or name.startswith(kind.prefixes))
    }


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # slow to import, and not needed for folders

    return entry_points(group=GROUP)
