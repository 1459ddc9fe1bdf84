"""A system table such as `db.t$snapshots`, as a table that can be scanned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.meta.store import TableStore
from penstock.table.read.filter import RowFilter
from penstock.table.read.outputs import Outputs
from penstock.table.system.tables import check_name, system_table
from penstock.table.values.names import no_column


@dataclass(frozen=True, slots=True)
class SystemScan(Outputs):
    """A read of a system table."""

    store: TableStore
    system: str
    columns: tuple[str, ...] | None
    where: pc.Expression | str | None

    @property
    def schema(self) -> pa.Schema:
        return self.to_arrow().schema

    def to_arrow(self) -> pa.Table:
        rows = system_table(self.store, self.system)
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
        self, columns: Sequence[str] | None = None, where: pc.Expression | str | None = None, **others: object
    ) -> SystemScan:
        if any(value is not None for value in others.values()):
            raise ConfigError("a system table shows only the current state of its table", table=self.name)
        return SystemScan(self.store, self.system, None if columns is None else tuple(columns), where)
