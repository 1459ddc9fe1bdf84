"""Which table the options of a read or a write name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.catalog import parse_name
from penstock.table.meta.store import TableStore
from penstock.table.schema.option_catalog import KEYS, find
from penstock.table.schema.option_checks import check_given, report
from penstock.table.schema.options import Options
from penstock.table.storage.open import open_storage

# What speaks to this format; all other options are the table's, for this one read or write.
OWN = ("path", "rowkind", "read.changelog", "branch", "commit-user", "commit-identifier", "overwrite-partition")
_NAMES = sorted({*OWN, *KEYS})
_OURS = ("scan.", "incremental-", "consumer.", "read.")
# How other table formats call it.
_MEANT = {"snapshot": "scan.snapshot-id", "snapshot-id": "scan.snapshot-id", "tag": "scan.tag-name"}
_MEANT |= {"versionasof": "scan.version", "timestampasof": "scan.timestamp", "as-of-timestamp": "scan.timestamp-millis"}
# Paimon's, which would change the rows that are read.
_NOT_HERE = {
    "incremental-to-auto-tag": "incremental-between=EARLIER,TAG  names both tags",
    "scan.creation-time-millis": "scan.timestamp-millis, or scan.file-creation-time-millis",
    "scan.bounded.watermark": "trigger(availableNow=True)  ends a stream where the table is",
    "scan.partitions": ".where(...) on the partition columns reads those alone",
}


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
        check_options(given)
        folder, slash, name = given["path"].rstrip("/").rpartition("/")
        base, branch, system = parse_name(name)
        report("read or write by Spark", {name: value for name, value in given.items() if name not in OWN})
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


def check_options(given: Mapping[str, str]) -> None:
    """ConfigError for what is not known, with the nearest that is, and for what would be passed over in silence.

    Options of stores (keys, endpoints) stand among them, so only what looks like one of a table's is judged.
    """
    for name in given:
        if name in _NOT_HERE:
            raise ConfigError(f"{name} is not supported", option=name, hint=_NOT_HERE[name])
        if name in OWN:
            continue
        if find(name) is not None:
            check_given({name: given[name]})
            continue
        near = difflib.get_close_matches(name, _NAMES, 1, cutoff=0.85)
        if near or name in _MEANT or name.startswith(_OURS):
            meant = near[0] if near else _MEANT.get(name)
            hint = f"did you mean {meant}?" if meant else "docs/tables.md  lists the options of reads and writes"
            raise ConfigError(f"{name!r} is no option of a read or a write", option=name, hint=hint)
