"""The rows of a golden table's live files, read file by file; keys are merged row by row, as a model may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.files.file_reader import FileReader
from penstock.table.meta.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from penstock.table.schema.schema_files import SchemaFiles
from tests.golden.cases import Case
from tests.unit.storage.memory_store import MemoryStore

SYSTEM = ("_SEQUENCE_NUMBER", "_VALUE_KIND")


def data_file(name: str, size: int, schema_id: int = 0, level: int = 0) -> DataFile:
    return DataFile(name, size, 0, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, 0, 0, schema_id, level)


class GoldenFiles:
    def __init__(self, case: Case) -> None:
        paths = [path for path in case.table.rglob("*") if path.is_file()]
        self.case = case
        self.store = MemoryStore({str(path): path.read_bytes() for path in paths})
        self.paths = {path.name: str(path) for path in paths}
        self.schemas = SchemaFiles(self.store, str(case.table))
        self.schema = self.schemas.get(case.expected["schema_id"])

    def reader(self) -> FileReader:
        keyed = bool(self.schema.primary_keys)
        return FileReader(
            storage=self.store,
            path_of=lambda file: self.paths[file.name],
            schema_of=self.schemas.get,
            wanted=self.schema.fields,
            with_sequence=keyed,
            with_kind=keyed,
            facts={"table": self.case.name},
        )

    def live_files(self) -> Iterator[tuple[DataFile, dict[str, Any]]]:
        for description in self.case.expected["files"]:
            yield (
                data_file(description["file"], description["bytes"], description["schema"], description["level"]),
                description,
            )

    def rows(self, vectors: dict[str, np.ndarray[Any, Any]] | None = None) -> pa.Table:
        """The merged rows of a deduplicate table, or all rows of an append table."""
        reader = self.reader()
        batches = [
            batch for file, _ in self.live_files() for batch in reader.read(file, vector=(vectors or {}).get(file.name))
        ]
        table = pa.Table.from_batches(batches, reader.schema)
        if not self.schema.primary_keys:
            return table
        keys = [table.column(key).to_pylist() for key in self.schema.primary_keys]
        winners: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        for row, (key, sequence, kind) in enumerate(
            zip(zip(*keys, strict=True), *(table.column(name).to_pylist() for name in SYSTEM), strict=True)
        ):
            winners[key] = max(winners.get(key, (-1, 0, 0)), (sequence, row, kind))
        kept = [row for _, row, kind in winners.values() if kind in (0, 2)]
        return table.take(pa.array(kept, pa.int64())).drop_columns(list(SYSTEM))
