"""Statements of Spark on the partitions of a table: SHOW, DESCRIBE, DROP and TRUNCATE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.pipelines.spark_catalog.column_types import catalyst_value
from penstock.pipelines.spark_catalog.request import Request
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.rest_commits import statistics
from penstock.table.handle import Table
from penstock.table.read.fallback import readable_entries
from penstock.table.sql.queries.table_partitions import check_droppable, live_partitions
from penstock.table.values.partition_values import exact_value
from penstock.table.values.types import AtomicType, DataType


@dataclass(frozen=True, slots=True)
class _Partition:
    """The values of a partition by its columns, in the internal form of tables and in the internal form of Spark."""

    values: Mapping[str, object]
    shown: Mapping[str, object]
    types: Mapping[str, DataType]

    @property
    def exact(self) -> dict[str, object]:
        """The values that choose this partition and no other."""
        return {name: exact_value(value) for name, value in self.values.items()}

    def has(self, where: Mapping[str, str | None]) -> bool:
        """Return whether the partition has these values, which are texts of Java."""
        return all(_is_written(text, self.shown[name], self.types[name]) for name, text in where.items())


def partitions(request: Request) -> list[Sequence[object]]:
    """Return the partitions that have the given values, in the order of their values."""
    where = request.given["where"]
    found = [list(partition.shown.values()) for partition in _partitions(request.table()) if partition.has(where)]
    # Nulls last, because None cannot be compared with other values.
    return sorted(found, key=lambda values: [(value is None, value) for value in values])


def partition_statistics(request: Request) -> dict[str, str]:
    """Return what DESCRIBE TABLE ... PARTITION displays of a partition, by the names that Paimon has for it."""
    table, where = request.table(), request.given["where"]
    layout, latest = Layout.of(table.definition), table.latest_snapshot
    entries = readable_entries(table.store, latest)
    meant = {
        partition: _partition(table, layout.partition_values(partition))
        for partition in {entry.partition for entry in entries}
    }
    of_it = [entry for entry in entries if meant[entry.partition].has(where)]
    found = statistics(of_it, layout, table.store.ambient)
    return {name: str(value) for row in found for name, value in row.items() if name != "spec"}


def drop_partitions(request: Request) -> bool:
    """Run ALTER TABLE ... DROP PARTITION, or TRUNCATE TABLE ... PARTITION; return whether there was such a partition.

    All partitions are dropped in one commit.
    """
    table, wanted = request.table(), request.given["wheres"]
    dropped = [partition.exact for partition in _partitions(table) if any(partition.has(where) for where in wanted)]
    if dropped:
        check_droppable(table, dropped)
        table.drop_partitions(dropped)
    return bool(dropped)


def _partitions(table: Table) -> Iterator[_Partition]:
    for internal in live_partitions(table):
        yield _partition(table, internal)


def _partition(table: Table, internal: Sequence[object]) -> _Partition:
    known = {field.name: field.type for field in table.definition.fields}
    types = {name: known[name] for name in table.partition_keys}
    own = zip(types.items(), internal, strict=True)
    values = {name: value for (name, _), value in own}
    return _Partition(values, {name: catalyst_value(value, types[name]) for name, value in values.items()}, types)


def _is_written(text: str | None, value: object, type_: DataType) -> bool:
    """Return whether a text of Java is the value of a partition."""
    if text is None or value is None:
        return text is None and value is None
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, float):
        # Java writes other digits than Python, and for FLOAT only those that a number of 32 bits has.
        single = isinstance(type_, AtomicType) and type_.root == "FLOAT"
        number = float(np.float32(text)) if single else float(text)
        return number == value or (np.isnan(number) and np.isnan(value))
    return text == str(value)
