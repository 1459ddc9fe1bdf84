"""The system tables by name, as Arrow tables with the same columns as in Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, did_you_mean
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.scans import POINT_KEYS, SCAN_FILE_CREATION_TIME_MILLIS, SCAN_MODE
from penstock.table.read.filter import RowFilter
from penstock.table.read.outputs import Outputs
from penstock.table.read.time_travel import Travel, resolve
from penstock.table.system import contents, description, own_rows
from penstock.table.values.arguments import option_texts
from penstock.table.values.names import no_column

_TABLES: dict[str, Callable[[TableStore], pa.Table]] = {
    "snapshots": description.snapshots,
    "schemas": description.schemas,
    "options": description.options,
    "tags": description.tags,
    "branches": description.branches,
    "consumers": description.consumers,
    "statistics": description.statistics,
    "aggregation_fields": description.aggregation_fields,
}
# Those with the rows of their table.
_OWN_ROWS: dict[str, Callable[[TableStore, Snapshot | None], pa.Table]] = {
    "audit_log": own_rows.audit_log,
    "binlog": own_rows.binlog,
    "ro": own_rows.read_optimized,
    "read_optimized": own_rows.read_optimized,
    "row_tracking": own_rows.row_tracking,
}
# Tables of one snapshot, which is the newest one unless options of the read name another.
_STATES: dict[str, Callable[[TableStore, Snapshot | None], pa.Table]] = {
    "files": contents.files,
    "file_key_ranges": contents.file_key_ranges,
    "manifests": contents.manifests,
    "partitions": contents.partitions,
    "buckets": contents.buckets,
    "table_indexes": contents.table_indexes,
    **_OWN_ROWS,
}
NAMES = tuple(sorted((*_TABLES, *_STATES)))
# The creation time of files names files, and no snapshot.
_TRAVEL = {SCAN_MODE.key, *POINT_KEYS} - {SCAN_FILE_CREATION_TIME_MILLIS.key}


def check_name(name: str, table: str) -> None:
    """Raise ConfigError for an unknown system table, with the nearest name as hint."""
    if name.lower() == "file_indexes":
        raise ConfigError(
            "the system table 'file_indexes' is not supported",
            table=table,
            hint="$table_indexes lists the files of indexes and of deletion vectors",
        )
    if name.lower() not in NAMES:
        raise ConfigError(
            f"there is no system table {name!r}",
            table=table,
            hint=did_you_mean(name.lower(), NAMES, f"choices are {', '.join(NAMES)}"),
        )


def check_system_options(name: str, options: Mapping[str, str], table: str) -> None:
    """Raise ConfigError for options of a read that the system table cannot follow."""
    for key in options:
        if name.lower() not in _STATES:
            raise ConfigError(
                "the system table always shows the present state of the table",
                table=f"{table}${name}",
                option=key,
                hint=f"tables with the state of a snapshot: {', '.join(sorted(_STATES))}",
            )
        if key not in _TRAVEL:
            raise ConfigError(
                "a system table is read at one snapshot",
                table=f"{table}${name}",
                option=key,
                hint=f"possible are {', '.join(sorted(_TRAVEL))}",
            )


def has_own_rows(name: str) -> bool:
    """Return whether a system table has the rows of its table."""
    return name.lower() in _OWN_ROWS


def followed_options(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options, of those set for all reads, that the system table can follow."""
    return {key: text for key, text in options.items() if name.lower() in _STATES and key in _TRAVEL}


def system_table(store: TableStore, name: str, options: Mapping[str, str] | None = None) -> pa.Table:
    """Return the system table of that name; names are not case sensitive.

    Tables with the contents of a snapshot show the one that the options of the read name.
    """
    check_name(name, store.name)
    check_system_options(name, options or {}, store.name)
    if name.lower() in _TABLES:
        return _TABLES[name.lower()](store)
    return _STATES[name.lower()](store, resolve(store, Travel.of(options or {})))


@dataclass(frozen=True, slots=True)
class SystemScan(Outputs):
    """A read of a system table."""

    store: TableStore
    system: str
    columns: tuple[str, ...] | None
    where: pc.Expression | str | None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return self.to_arrow().schema

    def to_arrow(self) -> pa.Table:
        rows = system_table(self.store, self.system, self.options)
        if self.where is not None:
            condition = RowFilter.of(self.where, rows.schema, self.store.name)
            kept = [condition.kept(batch) for batch in rows.to_batches()]
            rows = pa.Table.from_batches(kept, rows.schema)
        if self.columns is None:
            return rows
        unknown = [name for name in self.columns if name not in rows.column_names]
        if unknown:
            raise no_column(unknown, rows.column_names, f"{self.store.name}${self.system}")
        return rows.select(list(self.columns))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.to_arrow().to_batches()


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A system table. Read-only; each scan returns the state of the table at that time."""

    store: TableStore
    system: str

    def __post_init__(self) -> None:
        check_name(self.system, self.store.name)

    @property
    def name(self) -> str:
        return f"{self.store.name}${self.system}"

    @property
    def schema(self) -> pa.Schema:
        return self.scan().schema

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        options: Mapping[str, object] | None = None,
        **others: object,
    ) -> SystemScan:
        if any(value is not None for value in others.values()):
            hint = "options={'scan.snapshot-id': '3'}, and others that name a snapshot"
            raise ConfigError("a scan of a system table has columns, where and options", table=self.name, hint=hint)
        given = option_texts(options)
        check_system_options(self.system, given, self.store.name)
        return SystemScan(self.store, self.system, None if columns is None else tuple(columns), where, given)
