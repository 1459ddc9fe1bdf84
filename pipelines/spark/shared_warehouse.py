"""A warehouse on a disk that executors on other machines do not share with the driver.

A path without a scheme is a path of every machine. Tasks would write files that no reader finds, and the driver would
commit them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.spark.session import is_local
from penstock.storage.local import LocalStorage
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableMissing

_HINT = (
    "put the warehouse where the driver and all executors see the same files: an object store such as s3://, HDFS, or "
    "a file system that all machines mount at this path"
)


def unshared(error: BaseException, master: str) -> BaseException:
    """Return the error of a task as what it means if the task does not find a table that the driver sees."""
    path = error.facts.get("path") if isinstance(error, TableMissing) else None
    if path is None or is_local(master) or not Path(str(path)).exists():
        return error
    return ConfigError("an executor does not see a table of the driver's disk", path=path, master=master, hint=_HINT)


def check_shared(master: str, warehouse: CatalogSettings, messages: Mapping[str, Sequence[CommitMessage]]) -> None:
    """Raise ConfigError if files that tasks wrote to local disks are not on the driver's.

    One look at each file; stores that are not local disks are the same for all machines.
    """
    for table, of_table in () if is_local(master) else messages.items():
        store = warehouse.store(table)
        if not isinstance(store.storage, LocalStorage):
            continue
        layout = Layout.of(store.schema())
        for message in of_table:
            files = BucketFiles(store, layout, message.partition, message.bucket)
            for path in map(files.path, message.written_files):
                if not store.storage.exists(path):
                    raise ConfigError(
                        "an executor wrote a file that is not on the driver's disk; nothing was committed",
                        table=table,
                        file=path,
                        master=master,
                        hint=_HINT,
                    )
