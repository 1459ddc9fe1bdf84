"""The names of lookup files on this machine, and their deletion with the data files that they copy."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path

from penstock.storage.private_folder import private_folder
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.meta.entries import Bucket, ManifestEntry
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import field_json


def lookup_folder() -> Path:
    """Return the folder of lookup files on this machine."""
    return private_folder("lookup")


def bucket_mark(store: TableStore, place: Bucket) -> str:
    """Return a mark of the table and the bucket for the names of lookup files.

    File names are unique within a table, but a copied table has the same names.
    """
    partition, bucket = place
    return f"{root_mark(store.paths.root)}.{zlib.crc32(partition, bucket):08x}"


def columns_mark(schema: TableSchema) -> str:
    """Return a mark of the columns of a schema, which decide the rows that are read from a file.

    The schema id would not do: each branch counts its own schemas, and branches share files.
    """
    columns = json.dumps([field_json(column) for column in schema.fields], sort_keys=True)
    return hashlib.blake2s(columns.encode(), digest_size=8).hexdigest()


def root_mark(root: str) -> str:
    """Return a mark of the table's path for the names of lookup files."""
    return f"{zlib.crc32(root.encode()):08x}"


def drop_lookups(store: TableStore, removed: Iterable[ManifestEntry]) -> None:
    """Delete this machine's lookup files of data files that left the table.

    Other machines delete theirs when they next compact the bucket. A reader that has a file open can finish.
    """
    schema = store.schema()
    spec = CompactionSpec.of(schema) if schema.primary_keys else None
    if spec is not None and (spec.looks_up or spec.vectors) and (folder := lookup_folder()).exists():
        places = [(entry.file.name, bucket_mark(store, (entry.partition, entry.bucket))) for entry in removed]
        variants = {columns_mark(store.schemas.get(number)) for number in store.schemas.ids()}
        LookupStore(folder, 0).drop(f"{name}-{mark}.{variant}" for name, mark in places for variant in variants)


def drop_table_lookups(root: str) -> None:
    """Delete this machine's lookup files of a table that was dropped or moved."""
    for path in lookup_folder().glob(f"*-{root_mark(root)}.*"):
        path.unlink(missing_ok=True)
