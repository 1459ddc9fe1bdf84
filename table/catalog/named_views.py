"""The views that a catalog keeps, by name: they share the names of a database with its tables."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConfigError, did_you_mean
from penstock.table.catalog.base import CatalogBackend, split_name
from penstock.table.catalog.kept_views import KeptView
from penstock.table.catalog.missing_tables import check_database
from penstock.table.usable import check_name


@dataclass(frozen=True, slots=True)
class NamedViews:
    """The views of a catalog. A table in the place of a view is refused."""

    backend: CatalogBackend
    warehouse: str

    def view(self, name: str) -> KeptView:
        """Return a view `database.view`. ConfigError if the catalog has none of this name."""
        database, view = split_name(name)
        found = self.backend.view(name)
        if found is None:
            known = self.backend.views(database) if self.backend.has_database(database) else []
            hint = did_you_mean(view, known, "SHOW VIEWS  lists the views")
            raise ConfigError(f"there is no view {name!r}", warehouse=self.warehouse, hint=hint)
        return found

    def create(self, view: KeptView, *, replace: bool, ignore_if_exists: bool) -> None:
        """Create a view; `replace` replaces one of its name."""
        database, name = split_name(view.name)
        check_name(name, "view")
        check_database(self.backend, self.warehouse, database)
        self._refuse_table(view.name)
        former = self.backend.view(view.name) if replace else None
        if former is not None:
            self.backend.replace_view(view)
        elif not self.backend.create_view(view) and not ignore_if_exists:
            raise self._exists(view.name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name."""
        database, new = split_name(new_name)
        check_name(new, "view")
        check_database(self.backend, self.warehouse, database)
        self._refuse_table(name)
        found = self.view(name)
        self._refuse_table(new_name)
        if self.backend.view(new_name) is not None:
            raise self._exists(new_name)
        self.backend.rename_view(found.name, new_name)

    def drop(self, name: str, *, ignore_if_missing: bool) -> None:
        """Delete a view."""
        self._refuse_table(name)
        if ignore_if_missing and self.backend.view(name) is None:
            return
        self.backend.drop_view(self.view(name).name)

    def _exists(self, name: str) -> ConfigError:
        hint = "choose another name;  CREATE OR REPLACE VIEW  replaces a view"
        return ConfigError(f"view {name!r} exists already", warehouse=self.warehouse, hint=hint)

    def _refuse_table(self, name: str) -> None:
        if self.backend.has_table(name):
            hint = "DROP TABLE deletes it with its rows"
            raise ConfigError(f"{name} is a table, and not a view", warehouse=self.warehouse, hint=hint)
