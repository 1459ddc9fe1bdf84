"""Rows that tasks leave in files for the process that commits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.table.meta.store import TableStore

log = logging.getLogger(__name__)


def stage_rows(store: TableStore, job: str, batches: Iterable[pa.RecordBatch]) -> str | None:
    """Write the batches to a file and return its path, or None if there are no batches.

    One batch is in memory at a time.
    """
    path = f"{_staging_folder(store, job)}/{store.ambient.new_uuid()}.arrow"
    turn = iter(batches)
    first = next(turn, None)
    if first is None:
        return None
    # Staged rows are written and read once, so cheap compression is enough.
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with store.storage.open_output(path) as file, pa.ipc.new_stream(file, first.schema, options=options) as stream:
        stream.write_batch(first)
        for batch in turn:
            stream.write_batch(batch)
    return path


def staged_rows(store: TableStore, path: str) -> Iterator[pa.RecordBatch]:
    with store.storage.open_input(path) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def clear_staged(store: TableStore, job: str, paths: Iterable[str]) -> None:
    """Delete everything that tasks of the job have staged, including files of failed attempts.

    `paths` are the files to commit: the tasks of a stream have another name of the job than the process that commits,
    because Spark creates the writer of a stream for each of them.

    An error of the store is logged only: the rows may be committed, and a user who saw an error would write them again.
    """
    folders = {_staging_folder(store, job), *(path.rpartition("/")[0] for path in paths)}
    try:
        for folder in sorted(folders):
            store.storage.delete_tree(folder)
        # Deletes an empty folder only: other jobs may have staged rows.
        store.storage.delete(store.paths.staging_folder)
    except OSError as reason:
        log.warning("event=staged_rows_left_as_orphans table=%s reason=%s", store.name, reason)


def _staging_folder(store: TableStore, job: str) -> str:
    return f"{store.paths.staging_folder}/{job}"
