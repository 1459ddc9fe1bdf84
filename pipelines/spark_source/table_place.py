"""The table that the options of a read or a write name, and what else they say about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.spark_options import (
    BASE_SNAPSHOT,
    CATALOG_TABLE,
    CHANGES_BY_BUCKET,
    COMMIT_PROPERTIES,
    ONLY_FIRST,
    OWN,
    PLANNED_SNAPSHOT,
    ROW_CHANGES,
    ROW_KIND,
    STREAM_CHANGES,
    check_options,
    check_options_of_system_table,
)
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.path_tables import open_store
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableStore
from penstock.table.options.scans import RANGE_KEYS
from penstock.table.options.spark import READ_CHANGELOG
from penstock.table.options.table_options import TableOptions
from penstock.table.system.streamed import AUDIT_LOG, CHANGES, streamed_system


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table by its name in a catalog, as an option of reads and writes."""

    settings: CatalogSettings
    name: str

    def text(self) -> str:
        """Return the value of the option."""
        options = dict(self.settings.options)
        return json.dumps({"warehouse": self.settings.warehouse, "options": options, "name": self.name})

    @classmethod
    def of(cls, text: str) -> CatalogTable:
        """Build from the value of the option."""
        given = json.loads(text)
        return cls(CatalogSettings.of(given["warehouse"], given["options"]), given["name"])

    def store(self, branch: str | None) -> TableStore:
        """Open the table, or one of its branches, through its catalog."""
        name = self.name if branch is None else f"{self.name}$branch_{branch}"
        return self.settings.open().store(name)


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The location of a table.

    Small and without open resources: it is sent to tasks, which open the table themselves.
    """

    path: str
    branch: str | None
    system: str | None
    options: Mapping[str, str]
    catalog: CatalogTable | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TablePlace:
        # Spark's options are not case sensitive.
        given = {key.lower(): value for key, value in options.items()}
        if "paths" in given:
            raise ConfigError("a read is of one table", option="path", hint="read each table, and use  union")
        if not given.get("path"):
            raise ConfigError(
                "no table is given", option="path", hint='.load("/warehouse/db.db/t"), or .option("path", ...)'
            )
        check_options(given)
        folder, slash, name = given["path"].rstrip("/").rpartition("/")
        base, branch, system = parse_name(name)
        text = given.get(CATALOG_TABLE.key)
        catalog = None if text is None else CatalogTable.of(text)
        place = cls(f"{folder}{slash}{base}", given.get("branch", branch), system, given, catalog)
        if system == AUDIT_LOG and given.keys() & RANGE_KEYS:
            return place.as_changes()
        if system is not None and system.lower() not in CHANGES:  # these may be streams, which becomes known later
            place.check_shows_now()
        return place

    def check_shows_now(self) -> None:
        """Raise ConfigError when options would make a system table show anything but the current state of the table."""
        if self.system is not None:
            check_options_of_system_table(self.system, self.options, self.path)

    def as_changes(self) -> TablePlace:
        """Return the table whose audit log this is, read with row kinds, which produces the same columns."""
        return replace(self, system=None, options={**self.options, "rowkind": "true"})

    def as_stream(self) -> TablePlace:
        """Return the table whose rows a stream of this place has. ConfigError for system tables without a stream."""
        if self.system is None:
            return self
        has_keys = bool(self.store().schema().primary_keys)
        if streamed_system(self.system, self.path.rpartition("/")[2], has_keys=has_keys) is None:
            return replace(self, system=None)
        return self.as_changes()

    @property
    def table_options(self) -> dict[str, str]:
        return {key: value for key, value in self.options.items() if key not in OWN}

    @property
    def has_kinds(self) -> bool:
        options = TableOptions(self.options)
        return options[ROW_KIND] or options[READ_CHANGELOG]

    @property
    def row_changes(self) -> str | None:
        """Return UPDATE, DELETE or MERGE if the rows of a write are changes: a kind, the old row and the new row."""
        return TableOptions(self.options)[ROW_CHANGES]

    @property
    def changes_by_bucket(self) -> bool:
        """Return whether Spark sends all changes of a bucket to one task, which can write them then."""
        return TableOptions(self.options)[CHANGES_BY_BUCKET]

    @property
    def only_first_columns(self) -> int | None:
        """Return how many columns of the rows are written, if others come behind them."""
        return TableOptions(self.options)[ONLY_FIRST]

    @property
    def stream_changes(self) -> bool:
        """Return whether the rows of a write are the result of a query on changes, with their numbers."""
        return TableOptions(self.options)[STREAM_CHANGES]

    @property
    def commit_properties(self) -> dict[str, str] | None:
        """Return the properties of the snapshot that a write commits."""
        text = TableOptions(self.options)[COMMIT_PROPERTIES]
        return None if text is None else {str(name): str(value) for name, value in json.loads(text).items()}

    @property
    def planned_snapshot(self) -> int | None:
        """Return the snapshot that a statement reads, if it was planned on one."""
        return TableOptions(self.options)[PLANNED_SNAPSHOT]

    @property
    def base_snapshot(self) -> int | None:
        """Return the snapshot that a write was computed from, 0 for an empty table, None if it was not computed."""
        options = TableOptions(self.options)
        return options[PLANNED_SNAPSHOT] if self.row_changes else options[BASE_SNAPSHOT]

    def store(self) -> TableStore:
        branch = None if self.branch == "main" else self.branch
        return open_store(self.path, self.options, branch) if self.catalog is None else self.catalog.store(branch)
