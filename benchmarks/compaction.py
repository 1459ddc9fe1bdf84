"""Merging, compacting and looking up, per CPU second: `python -m benchmarks.compaction [rows of the large run]`.

A bucket of a large run on the top level and five small ones on level 0: 15 columns, a tenth of the small ones deletes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from benchmarks.figures import Figure, record
from penstock.storage.local import LocalStorage
from penstock.table.compaction.compact import CompactionInput, compact
from penstock.table.compaction.lookup import Lookup
from penstock.table.compaction.lookup_file import StoredFile
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.policy import Pick
from penstock.table.files.file_reader import FileReader
from penstock.table.files.file_writer import FileFolder, FileNames, RollingWriter
from penstock.table.merge.bounded_merge import SortedRun, merge_runs
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import Field, parse_type

TYPES = ("BIGINT", "STRING", "DOUBLE", "TIMESTAMP(3)", "DECIMAL(10, 2)")
COLUMNS = {"k": "BIGINT NOT NULL", **{f"c{i}": TYPES[i % 5] for i in range(14)}}
AGGREGATES = {f"fields.c{i}.aggregate-function": "sum" for i in range(14) if TYPES[i % 5] in {"BIGINT", "DOUBLE"}}
PARTIAL = {"merge-engine": "partial-update"}
# Million input rows per CPU second.
GOALS = {"deduplicate": 2.0, "deduplicate, lookup changelog": 1.0}
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate by sequence": {"sequence.field": "c0"},
    "partial-update": PARTIAL,
    "two sequence groups": {**PARTIAL, "fields.c0.sequence-group": "c1,c2,c3", "fields.c5.sequence-group": "c6,c7"},
    "aggregation": {"merge-engine": "aggregation", **AGGREGATES},
    "deduplicate, full changelog": {"changelog-producer": "full-compaction"},
    "deduplicate, lookup changelog": {"changelog-producer": "lookup"},
}


@dataclass
class Bucket:
    options: dict[str, str]
    folder: Path
    rows: int
    key: str = "BIGINT NOT NULL"  # or text: uuids of 36 characters
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def __post_init__(self) -> None:
        types = {**COLUMNS, "k": self.key}
        fields = tuple(Field(i, name, parse_type(text)) for i, (name, text) in enumerate(types.items()))
        self.schema = TableSchema(0, fields, len(fields), primary_keys=("k",), options=self.options)
        self.spec = CompactionSpec.of(self.schema)
        self.names, self.storage = FileNames("bench"), LocalStorage()
        self.reader = FileReader(
            self.storage,
            lambda file: f"{self.folder}/{file.name}",
            lambda _: self.schema,
            self.schema.fields,
            with_sequence=True,
            with_kind=True,
        )
        deletes = not self.options.get("merge-engine")
        tables = [self._table(self.rows, 0, deletes=False)]
        tables += [self._table(self.rows // 8, self.rows * (i + 2), deletes=deletes) for i in range(5)]
        self.files = [file for i, table in enumerate(tables) for file in self._written(table, 5 if i == 0 else 0)]

    def _table(self, rows: int, sequence: int, *, deletes: bool) -> pa.Table:
        keys = np.sort(self.random.choice(self.rows * 3 // 2, rows, replace=False))
        kinds = np.where(deletes & (self.random.random(rows) < 0.1), 3, 0).astype(np.int8)
        named = pa.array(keys) if self.key.startswith("BIGINT") else pa.array(_uuids(rows))
        arrays = [pa.array(np.arange(sequence, sequence + rows)), pa.array(kinds), named]
        arrays += [self._column(TYPES[i % 5], rows, 1000 if i < 6 else 10**5) for i in range(14)]
        return pa.table(arrays, names=["_SEQUENCE_NUMBER", "_VALUE_KIND", *COLUMNS])

    def _column(self, type_: str, rows: int, distinct: int) -> pa.Array:
        numbers, nulls = self.random.integers(0, distinct, rows), self.random.random(rows) < 0.2
        match type_:
            case "STRING":
                return pa.array(numbers.astype(str), mask=nulls)
            case "DOUBLE":
                return pa.array(numbers / 7, mask=nulls)
            case "TIMESTAMP(3)":
                return pa.array(numbers * 1000, mask=nulls).cast(pa.timestamp("ms"))
            case "DECIMAL(10, 2)":
                whole = pa.array(numbers.astype(np.int32), mask=nulls).cast(pa.decimal128(12, 2))
                return whole.cast(pa.decimal128(10, 2))
        return pa.array(numbers, mask=nulls)

    def writer(self, level: int, *, changelog: bool = False) -> RollingWriter:
        return RollingWriter(
            FileFolder(self.storage, str(self.folder), self.names, lambda: 0),
            self.schema,
            level=level,
            source=FileSource.COMPACT,
            changelog=changelog,
        )

    def _written(self, rows: pa.Table, level: int) -> list[DataFile]:
        writer = self.writer(level)
        writer.write(rows)
        return writer.finish()

    def bucket_files(self) -> CompactionInput:
        store = LookupStore(self.folder / "lookup")
        return CompactionInput(
            levels=Levels.of(self.files, 6),
            reader=self.reader,
            open_data=self.writer,
            open_changelog=lambda level: self.writer(level, changelog=True),
            lookup=Lookup(self.spec.merge, self.reader, store),
        )


def _uuids(rows: int) -> list[str]:
    random = Random(rows)
    return sorted(str(uuid.UUID(int=random.getrandbits(128))) for _ in range(rows))


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """MB above what was there at the start, measured every 10 ms."""
    pa.default_memory_pool().release_unused()
    peak, done = [0.0], threading.Event()
    start = resident()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], resident() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield peak
    done.set()
    watcher.join()


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def merge(bucket: Bucket) -> float:
    """Return million rows per CPU second of a merge of rows that are in memory."""
    batches = [list(bucket.reader.read(file)) for file in bucket.files]
    runs = [SortedRun(file.level, part) for file, part in zip(bucket.files, batches, strict=True)]
    rows = sum(file.row_count for file in bucket.files)
    seconds = min(
        cpu_seconds(lambda: sum(len(t) for t in merge_runs(bucket.spec.merge, runs, drop_deletes=True)))
        for _ in range(3)
    )
    print(f"  merge in memory     {rows / seconds / 1e6:6.2f} M rows/CPU-s")
    return rows / seconds / 1e6


def run_compaction(name: str, bucket: Bucket, merged: float) -> None:
    lookup = bucket.options.get("changelog-producer") == "lookup"
    files = [file for file in bucket.files if not lookup or file.level == 0]
    picked, given = Pick(tuple(files), 4 if lookup else 5), bucket.bucket_files()
    rows = sum(file.row_count for file in files)
    for turn in ("cold", "warm") if lookup else ("",):
        with peak_memory() as peak:
            seconds = cpu_seconds(lambda: compact(bucket.spec, given, picked))
        speed = rows / seconds / 1e6
        print(f"  compaction {turn:8} {speed:6.2f} M input rows/CPU-s, peak {peak[0]:.0f} MB above start")
        what = f"{name}: compaction, {turn}".removesuffix(", ")
        beside = f"{peak[0]:.0f} MB above start; the merge in memory {merged:.2f} M"
        record(Figure(what, speed, f"M input rows/CPU-s, {beside}", goal=GOALS.get(name)))


def look_up(bucket: Bucket) -> None:
    """Random keys, all of them there, in a warm store of the large run; beside it a full read of the same file."""
    base = bucket.files[0]
    read = min(cpu_seconds(lambda: sum(batch.num_rows for batch in bucket.reader.read(base))) for _ in range(2))
    rows = pa.Table.from_batches(list(bucket.reader.read(base)))
    types = bucket.spec.merge.key_types()
    store = LookupStore(bucket.folder / "probes")
    build = cpu_seconds(lambda: store.put("base", rows.to_batches(max_chunksize=16_384), ["k"], types))
    print(f"  keys of {bucket.key}: store of {len(rows):,} rows {len(rows) / build / 1e6:.2f} M rows/CPU-s")
    stored = store.get("base")
    assert stored is not None
    all_keys = rows.column("k").combine_chunks()
    for count in (1_000, 100_000):
        probes = [all_keys.take(pa.array(np.sort(bucket.random.choice(len(rows), count, replace=False))))]
        seconds = min(cpu_seconds(lambda probes=probes: found_rows(stored, probes)) for _ in range(5))
        print(
            f"    {count:7,} random keys {seconds * 1e3:6.1f} ms CPU, a full read {read / seconds:6.1f} times as much"
        )
        what = f"{count:,} random keys of {bucket.key.removesuffix(' NOT NULL')} found in {len(rows):,} rows"
        goal = 10.0 if count == 100_000 else None
        record(Figure(what, seconds * 1e3, "CPU-ms", read * 1e3, "a full read", goal, goal_of_ratio=True, less=True))


def found_rows(stored: StoredFile, probes: list[pa.Array]) -> pa.Table:
    return stored.rows(stored.find(probes)[1], probes)  # all of them are there


def main() -> None:
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_100_000
    for name, options in TABLES.items():
        folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        try:
            print(name)
            bucket = Bucket(options, folder, rows)
            run_compaction(name, bucket, merge(bucket))
            if name == "deduplicate":
                look_up(bucket)
                (folder / "text").mkdir()
                look_up(Bucket({}, folder / "text", rows, "STRING NOT NULL"))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
