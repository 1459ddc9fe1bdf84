"""A warehouse on a disk that executors on other machines do not share with the driver.

A path without a scheme is a path of every machine. Tasks would write files that no reader finds, and the driver would
commit them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.spark.session_settings import is_local
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.seen_files import SHARED, check_seen
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableMissing


def unshared(error: BaseException, master: str) -> BaseException:
    """Return another error if a task did not find a table that the driver sees: they do not share a disk."""
    path = error.facts.get("path") if isinstance(error, TableMissing) else None
    if path is None or is_local(master) or not Path(str(path)).exists():
        return error
    return ConfigError("an executor does not see a table of the driver's disk", path=path, master=master, hint=SHARED)


def check_shared(master: str, warehouse: CatalogSettings, messages: Mapping[str, Sequence[CommitMessage]]) -> None:
    """Raise ConfigError if files that tasks wrote to local disks are not on the driver's."""
    for table, of_table in () if is_local(master) else messages.items():
        check_seen(warehouse.store(table), of_table)
