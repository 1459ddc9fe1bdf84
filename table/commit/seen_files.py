"""The check that the committing process sees the files that tasks on other machines wrote.

A path without a scheme is a path of every machine. A task on a machine with a copy of the table's folder writes files
that no reader finds.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import ConfigError
from penstock.storage.local import LocalStorage
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableStore

SHARED = (
    "put the warehouse where the driver and all executors see the same files: an object store such as s3://, HDFS, or "
    "a file system that all machines mount at this path"
)


def check_seen(store: TableStore, messages: Iterable[CommitMessage]) -> None:
    """Raise ConfigError if a file of these messages is not on the local disk where the table is."""
    layout = Layout.of(store.schema())
    for message in messages:
        files = BucketFiles(store, layout, message.partition, message.bucket)
        check_paths(store, map(files.path, message.written_files))


def check_paths(store: TableStore, paths: Iterable[str]) -> None:
    """Raise ConfigError if one of these files is not on the local disk where the table is.

    Each file is requested once. Stores that are not local disks are the same for all machines.
    """
    if not isinstance(store.storage, LocalStorage):
        return
    for path in paths:
        if not store.storage.exists(path):
            raise ConfigError(
                "an executor wrote a file that is not on the driver's disk; it is not committed",
                table=store.name,
                file=path,
                hint=SHARED,
            )
