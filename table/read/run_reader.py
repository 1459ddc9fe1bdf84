"""Reading of the sorted runs of a section, for a merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.file_reader import BATCH_ROWS, FileReader
from penstock.table.merge.bounded_merge import SortedRun
from penstock.table.merge.sorted_runs import FileRun, Section

# A merge keeps one batch per run in memory, so larger batches pay off only when there are few runs.
_FEW_RUNS, MANY_ROWS = 10, 65_536


@dataclass(frozen=True, slots=True)
class RunReader:
    """A reader of sorted runs. It reads runs that may contain deletes by `with_kind`, and all others by `plain`.

    `conditions` are on key columns, so they hold for all rows of a key or for none. Rows whose key fails them may be
    left out, always the same rows for any columns of the readers.
    """

    with_kind: FileReader
    plain: FileReader
    batch_rows: int
    conditions: Sequence[ColumnCondition] = ()

    def sorted_runs(self, section: Section) -> list[SortedRun]:
        """Return the runs of a section, older first, in batches that fit in memory side by side."""
        size = min(self.batch_rows, MANY_ROWS if len(section.runs) <= _FEW_RUNS else BATCH_ROWS)
        return [SortedRun(run.level, self._batches(run, size)) for run in section.runs]

    def batches(self, run: FileRun) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a run."""
        return self._batches(run, self.batch_rows)

    def _batches(self, run: FileRun, batch_rows: int) -> Iterator[pa.RecordBatch]:
        # A missing count is not 0: files of old versions may contain deletes.
        mixed = any(file.delete_row_count != 0 for file in run.data_files)
        reader = self.with_kind if mixed else self.plain
        for file in run.data_files:
            yield from reader.read(file, batch_rows=batch_rows, conditions=self.conditions)
