"""The entry of a table in an Iceberg REST catalog by which Iceberg's readers find the table's metadata."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, StoreError, TableCorrupt
from penstock.table.iceberg.catalog_updates import CatalogUpdates, is_followed, manifest_lists, requirements
from penstock.table.iceberg.place import IcebergPlace, same_place
from penstock.table.meta.store import TableStore
from penstock.table.options.iceberg import ICEBERG_REST, ICEBERG_REST_URI, ICEBERG_STORAGE
from penstock.table.schema.table_schema import TableSchema

if TYPE_CHECKING:
    # Requests by HTTP are much code, which tables without such an entry do not need.
    from penstock.table.metastore.iceberg_client import IcebergCatalogClient

log = logging.getLogger(__name__)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class RestEntry:
    """The table `database.table` of a catalog. `folder` is the URI of the folder with the metadata.

    The catalog keeps metadata of its own, which each publication brings to the state of the newest version in files. So
    the next publication also brings the changes that the catalog missed.
    """

    catalog: IcebergCatalogClient
    database: str
    table: str
    folder: str

    @classmethod
    def of(cls, store: TableStore, schema: TableSchema, database: str, table: str) -> RestEntry | None:
        """Return the entry that the options require; None unless the metadata is registered in a REST catalog."""
        options = schema.typed
        uri = options[ICEBERG_REST_URI]
        if options[ICEBERG_STORAGE] != "rest-catalog" or uri is None:  # without a uri, `check_iceberg` refuses it
            return None
        from penstock.table.metastore.iceberg_client import IcebergCatalogClient

        given = {option.key.rpartition(".")[2]: options[option] for option in ICEBERG_REST}
        known = {name: text for name, text in given.items() if text is not None}
        place = IcebergPlace.of(store, schema)
        return cls(IcebergCatalogClient.of(uri, known), database, table, place.uri(place.folder))

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    def follow(self, place: IcebergPlace) -> None:
        """Bring the table of the catalog to the newest version of the metadata, and create it if it does not exist."""
        from penstock.table.metastore.iceberg_client import EntryChanged

        for _ in range(_TRIES):
            version = place.hinted_version()
            data = None if version is None else place.read_version(version)
            if data is None:
                return
            try:
                self._bring(json.loads(data))
            except EntryChanged as error:
                # Another writer was faster. It may have published a newer version, which is read now.
                log.info("event=iceberg_entry_changed table=%s catalog=%s reason=%s", self, self.catalog, error.message)
                continue
            return
        raise StoreError(
            "the Iceberg REST catalog refused changes because of other changes",
            table=str(self),
            catalog=str(self.catalog),
            attempts=_TRIES,
            hint="the next commit tries again; other programs must not change this table in the catalog",
        )

    def remove(self) -> None:
        """Drop the entry and keep all files. A table with other metadata is kept."""
        from penstock.table.metastore.iceberg_client import EntryMissing

        found = self._found()
        if found is not None and self._is_own(found):
            try:
                self.catalog.drop(self.database, self.table)
            except EntryMissing:
                log.info("event=iceberg_entry_gone table=%s catalog=%s", self, self.catalog)

    def _bring(self, after: dict[str, Any]) -> None:
        before = self._found()
        if before is not None:
            self._check(before)
        if before is not None and not self._followed(before, after):
            # Readers of a catalog cannot follow other partition columns. The files stay, as they are the table's.
            self.catalog.drop(self.database, self.table)
            before = None
        if before is None:
            self._create(after)
            return
        updates = self._updates(before, after)
        if updates:
            self.catalog.change(self.database, self.table, requirements(before), updates)

    def _updates(self, before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            return CatalogUpdates.between(before, after)
        except (LookupError, TypeError, ValueError, AttributeError) as reason:
            raise self._damaged(reason) from reason

    def _followed(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        try:
            return is_followed(before, after)
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as reason:
            raise self._damaged(reason) from reason

    def _damaged(self, reason: Exception) -> TableCorrupt:
        return TableCorrupt(
            f"not Iceberg metadata: {reason!r:.200}",
            table=str(self),
            catalog=str(self.catalog),
            hint="drop the table in the catalog, without its files; the next commit enters it again",
        )

    def _create(self, after: dict[str, Any]) -> None:
        from penstock.table.metastore.iceberg_client import EntryChanged

        try:
            self.catalog.create_database(self.database)
        except EntryChanged:
            log.debug("the namespace %s exists", self.database)
        schema = next(schema for schema in after["schemas"] if schema["schema-id"] == after["current-schema-id"])
        # The catalog chooses the place of its own metadata, and would give other ids to the columns: so the table is
        # created by the updates, which keep ours.
        staged = self.catalog.stage_table(self.database, self.table, {**schema, "schema-id": 0})
        updates = CatalogUpdates.creating(staged, after)
        self.catalog.change(self.database, self.table, [{"type": "assert-create"}], updates)

    def _found(self) -> dict[str, Any] | None:
        from penstock.table.metastore.iceberg_client import EntryMissing

        try:
            return self.catalog.table(self.database, self.table)
        except EntryMissing:
            return None

    def _is_own(self, entry: dict[str, Any]) -> bool:
        lists = manifest_lists(entry)
        return bool(lists) and all(same_place(uri.rpartition("/")[0], self.folder) for uri in lists)

    def _check(self, entry: dict[str, Any]) -> None:
        """Raise ConfigError unless the table of the catalog shows this metadata."""
        if self._is_own(entry):
            return
        lists = manifest_lists(entry)
        raise ConfigError(
            "the Iceberg REST catalog has another table of this name",
            table=str(self),
            catalog=str(self.catalog),
            folder=lists[0].rpartition("/")[0] if lists else entry.get("location"),
            hint="set metadata.iceberg.database or metadata.iceberg.table to another name, or drop that table in the"
            " catalog if it is not needed",
        )
