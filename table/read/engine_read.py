"""Reads of query engines: DuckDB, Polars and DataFusion request only the columns and the files that a query needs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.read.outputs import Outputs
from penstock.table.read.plan import Plan
from penstock.table.read.splits import Split

if TYPE_CHECKING:
    from penstock.table.read.lazy_dataset import LazyDataset, Rows


class EngineRead(Outputs):
    """A read that engines narrow to columns and conditions. Subclasses plan it, and read split by split."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_divisible(self) -> bool: ...

    @abstractmethod
    def at_one_snapshot(self) -> Self: ...

    @abstractmethod
    def narrowed(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Self: ...

    @abstractmethod
    def plan(self) -> Plan: ...

    @abstractmethod
    def read(self, split: Split) -> Iterator[pa.RecordBatch]: ...

    def to_dataset(self) -> LazyDataset:
        """Return an Arrow dataset, pinned to one snapshot, that reads rows only when an engine asks for them."""
        from penstock.table.read.lazy_dataset import LazyDataset  # imports pandas, which costs as much as a small scan

        pinned = self.at_one_snapshot()
        return LazyDataset(pinned.schema, pinned._rows, pinned._parts)

    def to_polars(self, *, lazy: bool = False) -> Any:
        """Return all rows as a polars DataFrame, or a LazyFrame that reads what its query needs once collected."""
        if not lazy:
            return super().to_polars()
        from penstock.table.read.polars_frame import lazy_frame

        pinned = self.at_one_snapshot()
        return lazy_frame(pinned.schema, pinned._pruned_rows)

    def _rows(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        return self.narrowed(columns, where).to_batches()

    def _parts(self, where: pc.Expression | None) -> list[Rows]:
        """Return a read for each split of the plan."""
        # A limit, or changes between snapshots, concern the whole read and cannot be divided into splits.
        if not self.is_divisible:
            return [self._rows]
        return [partial(self._split_rows, split) for split in self._planned_for(where)]

    def _split_rows(
        self, split: Split, columns: Sequence[str] | None, where: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        return self.narrowed(columns, where).read(split)

    def _pruned_rows(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files in which the filter may hold. The engine filters the rows itself."""
        read = self.narrowed(columns, None)
        if not self.is_divisible:
            yield from read.to_batches()
            return
        for split in self._planned_for(where):
            yield from read.read(split)

    def _planned_for(self, where: pc.Expression | None) -> Sequence[Split]:
        try:
            return self.narrowed(None, where).plan().splits
        except ConfigError:  # a filter that a scan cannot evaluate, on a struct's field: no file can be left out
            return self.plan().splits
