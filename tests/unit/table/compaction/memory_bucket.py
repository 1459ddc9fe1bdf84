"""A bucket whose files are tables in memory: enough of reading and writing to run compactions on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.compaction.compact import CompactionInput, compact
from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.compaction.lookup import Lookup
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.policy import Pick, Policy, pick, pick_all
from penstock.table.files.conditions import ColumnCondition
from penstock.table.merge.bounded_merge import SortedRun, merge_runs
from penstock.table.merge.key_groups import group_rows
from penstock.table.merge.merge_rows import merge_groups
from penstock.table.merge.sorted_runs import FileRun, Levels, sections
from penstock.table.meta.data_file import EMPTY_STATS, DataFile
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.binary_row import encode_rows
from tests.unit.table.merge.tables import rows_table

ROW_BYTES = 100


@dataclass
class MemoryFiles:
    """The files of one or more buckets by name."""

    spec: CompactionSpec
    tables: dict[str, pa.Table] = field(default_factory=dict)
    batch_rows: int = 16
    reads: list[str] = field(default_factory=list)

    def read(
        self,
        file: DataFile,
        *,
        conditions: Sequence[ColumnCondition] = (),
        vector: np.ndarray[Any, Any] | None = None,
        positions: bool = False,
        batch_rows: int = 16,
    ) -> Iterator[pa.RecordBatch]:
        self.reads.append(file.name)
        table = self.tables[file.name]
        if positions:
            table = table.append_column("_POSITION", pa.array(np.arange(len(table))))
        if vector is not None:
            kept = np.ones(len(table), np.bool_)
            kept[vector] = False
            table = table.filter(pa.array(kept))
        yield from table.combine_chunks().to_batches(max_chunksize=min(batch_rows, self.batch_rows))


class MemoryWriter:
    """Rolls after so many rows."""

    def __init__(self, files: MemoryFiles, level: int, prefix: str, names: Iterator[int], rows: int) -> None:
        self._files, self._level, self._prefix, self._names, self._rows = files, level, prefix, names, rows
        self._held: list[pa.Table] = []
        self.aborted = False

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        self._held.append(pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)

    def finish(self) -> list[DataFile]:
        table = pa.concat_tables(self._held) if self._held else None
        if table is None:
            return []
        parts = [table.slice(start, self._rows) for start in range(0, len(table), self._rows)]
        return [self._file(part) for part in parts]

    def abort(self) -> None:
        self.aborted = True

    def _file(self, rows: pa.Table) -> DataFile:
        name = f"{self._prefix}-{next(self._names)}.parquet"
        self._files.tables[name] = rows
        merge = self._files.spec.merge
        keys = [rows.column(key).combine_chunks() for key in merge.keys]
        encoded = encode_rows(keys, merge.key_types())
        arity = len(keys).to_bytes(4, "big")
        kinds = rows.column("_VALUE_KIND").to_pylist()
        sequence = rows.column("_SEQUENCE_NUMBER").to_pylist()
        return DataFile(
            name=name,
            size=len(rows) * ROW_BYTES,
            row_count=len(rows),
            min_key=arity + encoded[0],
            max_key=arity + encoded[len(rows) - 1],
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence=min(sequence),
            max_sequence=max(sequence),
            schema_id=0,
            level=self._level,
            delete_row_count=sum(1 for kind in kinds if kind in (1, 3)),
        )


class MemoryBucket:
    """Commits, compacts and reads a bucket as a writer would."""

    def __init__(
        self,
        schema: TableSchema,
        policy: Policy,
        *,
        store: LookupStore | None = None,
        variant: str = "0",
        rolls_at: int = 25,
    ) -> None:
        self.spec = CompactionSpec.of(schema)
        self.policy = policy
        self.files = MemoryFiles(self.spec)
        self.live: dict[tuple[str, int], DataFile] = {}
        self.vectors: dict[str, np.ndarray[Any, Any]] = {}
        self._names, self._sequence, self._rolls_at = itertools.count(), itertools.count(), rolls_at
        self._lookup = Lookup(self.spec.merge, self.files, store, variant)

    @property
    def levels(self) -> Levels:
        return Levels.of(self.live.values(), self.policy.num_levels)

    def flush(self, records: list[tuple[int, dict[str, Any]]]) -> None:
        rows = rows_table(self.spec.merge, [(next(self._sequence), kind, row) for kind, row in records])
        writer = self.writer("data", 1_000_000)(0)
        writer.write(merge_groups(self.spec.merge, group_rows(self.spec.merge, rows, sorted_runs=False)).table())
        self._add(writer.finish())

    def writer(self, prefix: str, rows: int) -> Callable[[int], MemoryWriter]:
        return lambda level: MemoryWriter(self.files, level, prefix, self._names, rows)

    def _add(self, files: Sequence[DataFile]) -> None:
        self.live.update({(file.name, file.level): file for file in files})

    def bucket_files(self) -> CompactionInput:
        return CompactionInput(
            levels=self.levels,
            reader=self.files,
            open_data=self.writer("data", self._rolls_at),
            open_changelog=self.writer("changelog", 1_000_000),
            vectors=self.vectors,
            lookup=self._lookup,
        )

    def compact(self, *, full: bool = False) -> list[tuple[int, dict[str, Any]]]:
        """Compact what is due, and give the changelog."""
        picked = pick_all(self.levels, self.vectors) if full else pick(self.policy, self.levels)
        return [] if picked is None else self.run(picked)

    def run(self, picked: Pick) -> list[tuple[int, dict[str, Any]]]:
        done = compact(self.spec, self.bucket_files(), picked)
        self.apply(done)
        return [change for file in done.changelog for change in records_of(self.files.tables[file.name])]

    def apply(self, done: CompactionResult) -> None:
        for file in done.before:
            del self.live[file.name, file.level]
        self._add(done.after)
        if done.vectors is not None:
            self.vectors = dict(done.vectors)
        assert set(self.vectors) <= {name for name, _ in self.live}

    def read(self) -> list[dict[str, Any]]:
        """Return the rows of a batch read."""
        files = list(self.live.values())
        merged: list[pa.Table] = []
        if self.spec.vectors:
            merged += [self._whole(file) for file in files if file.level > 0]
        else:
            if self.spec.merge.engine.name == "first-row":
                files = [file for file in files if file.level > 0]
            for section in sections(files, self.spec.merge.key_types()):
                runs = [SortedRun(run.level, self._batches(run)) for run in section.runs]
                merged += merge_runs(self.spec.merge, runs, drop_deletes=True)
        rows = [row for table in merged for _, row in records_of(table)]
        return sorted(rows, key=lambda row: tuple(row[key] for key in self.spec.merge.keys))

    def _whole(self, file: DataFile) -> pa.Table:
        schema = self.files.tables[file.name].schema
        return pa.Table.from_batches(self.files.read(file, vector=self.vectors.get(file.name)), schema)

    def _batches(self, run: FileRun) -> Iterator[pa.RecordBatch]:
        for file in run.data_files:
            yield from self.files.read(file)

    def check_levels(self) -> None:
        """Above level 0 no two files of a level meet."""
        for files in self.levels.upper:
            for section in sections(files, self.spec.merge.key_types()):
                assert len(section.runs) == 1


def records_of(table: pa.Table) -> list[tuple[int, dict[str, Any]]]:
    kinds = table.column("_VALUE_KIND").to_pylist()
    rows = table.drop_columns(["_SEQUENCE_NUMBER", "_VALUE_KIND"]).to_pylist()
    return list(zip(kinds, rows, strict=True))
