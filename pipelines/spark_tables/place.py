"""Which table the options of a read or a write name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.catalog import parse_name
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options
from penstock.table.storage.open import open_storage

# What speaks to this format; all other options are the table's, for this one read or write.
OWN = ("path", "rowkind", "read.changelog", "branch", "commit-user", "commit-identifier", "overwrite-partition")


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Small and free of open things: it travels to tasks, which open the table for themselves."""

    path: str
    branch: str | None
    system: str | None
    options: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TablePlace:
        given = {key.lower(): value for key, value in options.items()}
        if not given.get("path"):
            raise ConfigError(
                "no table is named", option="path", hint='.load("/warehouse/db.db/t"), or .option("path", ...)'
            )
        folder, slash, name = given["path"].rstrip("/").rpartition("/")
        base, branch, system = parse_name(name)
        return cls(f"{folder}{slash}{base}", given.get("branch", branch), system, given)

    @property
    def table_options(self) -> dict[str, str]:
        return {key: value for key, value in self.options.items() if key not in OWN}

    @property
    def has_kinds(self) -> bool:
        options = Options(self.options)
        return options.boolean("rowkind", default=False) or options.boolean("read.changelog", default=False)

    def store(self) -> TableStore:
        storage, root = open_storage(self.path, self.options)
        return TableStore.open(storage, root.rstrip("/"), None if self.branch == "main" else self.branch)
