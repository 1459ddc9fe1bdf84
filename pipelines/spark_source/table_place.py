"""Resolves the table that the options of a read or a write name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.options import OWN, ROW_KIND, check_options, check_system_options
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.path_tables import open_store
from penstock.table.meta.store import TableStore
from penstock.table.options.flink_and_spark import READ_CHANGELOG
from penstock.table.options.scans import INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_TIMESTAMP
from penstock.table.options.table_options import TableOptions

AUDIT_LOG = "audit_log"
BETWEEN = frozenset({INCREMENTAL_BETWEEN.key, INCREMENTAL_BETWEEN_TIMESTAMP.key})


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The location of a table.

    Small and without open resources: it is sent to tasks, which open the table themselves.
    """

    path: str
    branch: str | None
    system: str | None
    options: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TablePlace:
        given = {key.lower(): value for key, value in options.items()}
        if not given.get("path"):
            raise ConfigError(
                "no table is given", option="path", hint='.load("/warehouse/db.db/t"), or .option("path", ...)'
            )
        check_options(given)
        folder, slash, name = given["path"].rstrip("/").rpartition("/")
        base, branch, system = parse_name(name)
        place = cls(f"{folder}{slash}{base}", given.get("branch", branch), system, given)
        if system == AUDIT_LOG and given.keys() & BETWEEN:
            return place.as_changes()
        if system not in {None, AUDIT_LOG}:  # an audit log may be read as a stream; whether it is becomes known later
            place.check_shows_now()
        return place

    def check_shows_now(self) -> None:
        """Raise ConfigError when options would make a system table show anything but the current state of the table."""
        if self.system is not None:
            check_system_options(self.system, self.options, self.path)

    def as_changes(self) -> TablePlace:
        """Return the table whose audit log this is, read with row kinds, which produces the same columns."""
        return replace(self, system=None, options={**self.options, "rowkind": "true"})

    @property
    def table_options(self) -> dict[str, str]:
        return {key: value for key, value in self.options.items() if key not in OWN}

    @property
    def has_kinds(self) -> bool:
        options = TableOptions(self.options)
        return options[ROW_KIND] or options[READ_CHANGELOG]

    def store(self) -> TableStore:
        return open_store(self.path, self.options, None if self.branch == "main" else self.branch)
