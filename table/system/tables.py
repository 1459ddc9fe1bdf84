"""The system tables by name, as Arrow tables with the same columns as in Java."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.meta.store import TableStore
from penstock.table.system import contents, description
from penstock.table.system import row_tables as rows

_TABLES: dict[str, Callable[[TableStore], pa.Table]] = {
    "snapshots": description.snapshots,
    "schemas": description.schemas,
    "options": description.options,
    "tags": description.tags,
    "branches": description.branches,
    "consumers": description.consumers,
    "statistics": description.statistics,
    "aggregation_fields": description.aggregation_fields,
    "files": contents.files,
    "manifests": contents.manifests,
    "partitions": contents.partitions,
    "buckets": contents.buckets,
    "table_indexes": contents.table_indexes,
    "audit_log": rows.audit_log,
    "binlog": rows.binlog,
    "ro": rows.read_optimized,
    "read_optimized": rows.read_optimized,
}
NAMES = tuple(sorted(_TABLES))


def check_name(name: str, table: str) -> None:
    """Raise ConfigError for an unknown system table, with the nearest name as hint."""
    if name.lower() not in _TABLES:
        raise ConfigError(
            f"there is no system table {name!r}",
            table=table,
            hint=did_you_mean(name.lower(), NAMES, f"choices are {', '.join(NAMES)}"),
        )


def system_table(store: TableStore, name: str) -> pa.Table:
    """Return the system table of that name; names are not case sensitive."""
    check_name(name, store.name)
    return _TABLES[name.lower()](store)
