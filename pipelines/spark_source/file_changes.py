"""UPDATE, DELETE and MERGE of Spark on a table without a key: only files with changed rows are replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.spark_source.staged_rows import stage_rows, staged_rows
from penstock.row_kinds import DELETE
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.changed_files import ChangedFiles
from penstock.table.operations.placed_rows import FILE, ROW, LocatedRows
from penstock.table.operations.write import TableWriter
from penstock.table.options.compaction import WRITE_ONLY


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changes of one statement, which has read the snapshot `base`.

    A batch has the kind of each change, the file and the position of the old row (null for a new row), and the new
    values of all columns. Tasks write the new rows. The process that commits removes the old rows from their files, or
    marks them in deletion vectors.
    """

    store: TableStore
    base: Snapshot | None
    options: Mapping[str, str]

    def take(self, batches: Iterable[pa.RecordBatch], job: str) -> tuple[list[CommitMessage], str | None]:
        """Write the new rows of a task, and return their files and the path of the staged places of the old ones."""
        # A compaction in the same commit could take files away from which rows are removed.
        schema = TableWriter.schema_with(self.store, {**self.options, WRITE_ONLY.key: "true"})
        with TableWriter(self.store, schema, self.store.new_commit_user(), base=self.base) as writer:
            path = stage_rows(self.store, job, self._places(batches, writer))
            # Closing the writer must not delete the files of the messages any more.
            messages = writer.prepare()
            writer.forget()
            return messages, path

    def _places(self, batches: Iterable[pa.RecordBatch], writer: TableWriter) -> Iterator[pa.RecordBatch]:
        """Yield the places of old rows, while the new rows of each batch are written."""
        names = self.store.schema().names
        for batch in batches:
            # By position: a table may have a column with the name of a place.
            kinds, file, row = batch.columns[:3]
            new = pa.RecordBatch.from_arrays(batch.columns[3:], names=names).filter(pc.not_equal(kinds, DELETE))
            if new.num_rows:
                writer.write(new)
            places = pa.RecordBatch.from_arrays([file, row], names=[FILE, ROW]).filter(pc.is_valid(file))
            if places.num_rows:
                yield places

    def commit(self, messages: Sequence[CommitMessage], paths: Sequence[str], user: str | None) -> None:
        """Commit all changes in one snapshot.

        CommitConflict when another job changed one of the files since `base`. Rows that it added are accepted. The
        positions of all old rows are in memory, with 12 bytes for each.
        """
        with ChangedFiles(self.store, self.base) as changed:
            changed.add_rows(messages)
            placed = LocatedRows(changed)
            places = [batch for path in paths for batch in _numbered(placed, staged_rows(self.store, path))]
            if places:
                rows = pa.Table.from_batches(places).join(placed.units(), FILE)
                rows = rows.select(["unit", FILE, ROW]).sort_by([(name, "ascending") for name in ("unit", FILE, ROW)])
                placed.remove(rows.to_batches())
            changed.commit(user or self.store.new_commit_user())


def _numbered(placed: LocatedRows, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield places with the numbers of files instead of their names."""
    for batch in places:
        names = batch.column(0).dictionary_encode()
        numbers = pa.array(placed.numbers(names.dictionary.to_pylist()), pa.int64())
        yield pa.RecordBatch.from_arrays([numbers.take(names.indices), batch.column(1)], names=[FILE, ROW])
