"""Tables opened and created by the path of their folder, without a catalog.

Commits to them are made by files alone, so a table of a catalog that locks its tables is to be opened by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.conditional_create import probe
from penstock.storage.environment import Environment
from penstock.storage.open import open_storage
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from penstock.table.option_needs import report_table
from penstock.table.schema.new_schema import ColumnLike, create_schema
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_folder import create_first_schema
from penstock.table.usable import check_usable


def open_table(path: str, options: Mapping[str, str] | None = None, *, branch: str | None = None) -> Table:
    """Open the table in the folder `path`, which may belong to any catalog."""
    return Table(open_store(path, options or {}, branch), just_opened=True)


def open_store(path: str, options: Mapping[str, str], branch: str | None = None) -> TableStore:
    """Open the store of the table in the folder `path`, or of one of its branches."""
    storage, root = open_storage(str(path), options)
    return TableStore.open(storage, root.rstrip("/"), branch)


def create_table(path: str, schema: Any, storage_options: Mapping[str, str] | None = None, **described: Any) -> Table:
    """Create a table in a separate folder, outside of any warehouse; `described` as in Catalog.create_table."""
    storage, root = open_storage(str(path), storage_options or {})
    probe(storage, root.rstrip("/"))
    made = create_table_at(
        storage,
        root.rstrip("/"),
        schema,
        described.get("primary_keys", ()),
        described.get("partition_keys", ()),
        described.get("options"),
        described.get("comment"),
        Environment(),
    )
    if not made:
        raise ConfigError("there is a table already", path=path, hint="open it with open_table, or choose another path")
    return open_table(path, storage_options)


def create_table_at(
    storage: Storage,
    path: str,
    schema: pa.Schema | Sequence[ColumnLike],
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, str] | None,
    comment: str | None,
    ambient: Environment,
) -> bool:
    """Create a table; return False, and do nothing, when one exists at `path` already."""
    first = create_schema(schema, primary_keys, partition_keys, dict(options or {}), comment, now=ambient.now_millis())
    check_usable(first)
    made = not SchemaFiles(storage, path).ids() and create_first_schema(storage, path, first)
    if made:
        report_table(TableStore.open(storage, path).name, first)
    return made
