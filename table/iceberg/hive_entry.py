"""The entry of a table in a Hive metastore by which Iceberg's readers find the table's metadata."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.table.iceberg.place import IcebergPlace, same_place
from penstock.table.meta.store import TableStore
from penstock.table.options.iceberg import ICEBERG_STORAGE, ICEBERG_URI
from penstock.table.schema.table_schema import TableSchema

if TYPE_CHECKING:
    # The client of metastores is optional.
    from penstock.table.metastore.hive_client import HiveMetastore

log = logging.getLogger(__name__)

_KIND = {"EXTERNAL": "TRUE", "table_type": "ICEBERG"}
_LOCATION, _PREVIOUS = "metadata_location", "previous_metadata_location"


@dataclass(frozen=True, slots=True)
class HiveEntry:
    """The external table `database.table` of a metastore, which Iceberg's Hive catalogs read as an Iceberg table.

    `folder` is the URI of the folder with the metadata.
    """

    metastore: HiveMetastore
    database: str
    table: str
    folder: str

    @classmethod
    def of(cls, store: TableStore, schema: TableSchema, database: str, table: str) -> HiveEntry | None:
        """Return the entry that the options require; None unless the metadata is registered in a metastore."""
        uri = schema.typed[ICEBERG_URI]
        if schema.typed[ICEBERG_STORAGE] != "hive-catalog" or uri is None:  # without a uri, `check_iceberg` refuses it
            return None
        from penstock.table.metastore.hive_client import HiveMetastore

        place = IcebergPlace.of(store, schema)
        return cls(HiveMetastore.of(uri), database.lower(), table.lower(), place.uri(place.folder))

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    def follow(self, place: IcebergPlace, schema: TableSchema) -> None:
        """Let the entry name the newest version of the metadata, and create it if it does not exist."""
        version = place.hinted_version()
        if version is None:
            return
        location = place.uri(place.path_of_version(version))
        entry = self._found()
        if entry is None:
            self._create(schema, location)
            return
        self._check(entry)
        from penstock.table.metastore.hive_objects import columns

        before = entry.parameters[_LOCATION]
        if (before, entry.sd.cols) == (location, columns(schema)):
            return
        if before != location:
            entry.parameters |= {_PREVIOUS: before, _LOCATION: location}
        self._alter(entry, columns(schema))

    def _alter(self, entry: Any, columns: list[Any]) -> None:
        """Change the entry, with new columns of any type in any order."""
        from penstock.table.metastore.hive_client import RequestRefused

        before, entry.sd.cols = entry.sd.cols, columns
        try:
            self.metastore.alter(self.database, self.table, entry)
        except RequestRefused:
            if before == columns:
                raise
            # A metastore with default settings compares the types of columns by their positions: none differs from no
            # columns. Iceberg's readers know the columns from the metadata, which must not stay behind.
            for some in ([], columns):
                entry.sd.cols = some
                self.metastore.alter(self.database, self.table, entry)

    def remove(self) -> None:
        """Drop the entry and keep all files. A table with other metadata, or of another kind, is kept."""
        found = self._found()
        if found is not None and _is_iceberg(found) and same_place(_folder(found), self.folder):
            with self.metastore.session() as client:
                client.drop_table(self.database, self.table, deleteData=False)

    def _found(self) -> Any:
        from penstock.table.metastore.hive_client import NameMissing

        try:
            return self.metastore.table(self.database, self.table)
        except NameMissing:
            return None

    def _check(self, entry: Any) -> None:
        """Raise ConfigError unless the entry belongs to this metadata."""
        if not _is_iceberg(entry):
            raise ConfigError(
                "the metastore has another table, which is not an Iceberg table, under the name of the Iceberg table",
                table=str(self),
                metastore=str(self.metastore),
                hint="set metadata.iceberg.database or metadata.iceberg.table to another name",
            )
        if not same_place(_folder(entry), self.folder):
            raise ConfigError(
                "the Iceberg table of this name in the metastore has its metadata in another folder",
                table=str(self),
                metastore=str(self.metastore),
                folder=_folder(entry),
                hint="set metadata.iceberg.table to another name, or drop that table in Hive if it is not needed",
            )

    def _create(self, schema: TableSchema, location: str) -> None:
        from penstock.table.metastore.hive_client import NameExists
        from penstock.table.metastore.hive_objects import new_database, new_iceberg_table

        home = self.folder.rpartition("/")[0]
        try:
            with self.metastore.session() as client:
                client.create_database(new_database(self.database, home.rpartition("/")[0], {}))
        except NameExists:
            pass
        try:
            self.metastore.create(
                new_iceberg_table(self.database, self.table, home, schema, {**_KIND, _LOCATION: location})
            )
        except NameExists:
            # Another writer has created it since. The versions that both name are equally new, or the next commit
            # corrects the entry.
            log.info("event=iceberg_entry_exists table=%s metastore=%s", self, self.metastore)


def _is_iceberg(table: Any) -> bool:
    parameters = table.parameters or {}
    return parameters.get("table_type", "").upper() == "ICEBERG" and _LOCATION in parameters


def _folder(table: Any) -> str:
    return str(table.parameters[_LOCATION].rpartition("/")[0])
