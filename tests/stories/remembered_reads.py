"""Rows that the checks of a story read: they are read again only if something that they come from has changed.

Most steps change few files, and the checks after each step and at the end read the same snapshots again and again. The
plan of every scan is made each time. Its rows are those of an earlier scan if the schema and the splits are equal,
and every data file, index file and schema file that the earlier scan read is the file that it read then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from penstock.table.read.scan import Scan
from penstock.table.read.splits import Split
from penstock.table.schema.table_schema import TableSchema
from tests.invariants.view import Reads
from tests.simulation.store import Disk, SimStore
from tests.stories.timed import Lasting

# The plan depends on the files in these folders, and it is made again for every scan.
PLANNED_FROM = ("snapshot", "manifest", "changelog", "tag", "consumer")
READS = ("read", "read_range", "open_input", "size")
# A file of the disk: its bytes and its time. A file that is written again is another object.
Content = tuple[bytes, int] | None


@dataclass(frozen=True, slots=True)
class _Known:
    schema: TableSchema
    splits: tuple[Split, ...]
    read: dict[str, Content]
    rows: pa.Table


class RememberedReads(Reads):
    """The rows that were read from one disk by stores without faults, without those that have expired."""

    def __init__(self, disk: Disk, lasting: Lasting | None = None) -> None:
        super().__init__()
        self._disk, self._lasting = disk, lasting
        self._contents: dict[Hashable, tuple[Content, pa.Table]] = {}
        self._scans: dict[Hashable, list[_Known]] = {}

    def of_file(self, path: str, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        content = self._disk.files.get(path)
        known = self._contents.get((path, key))
        if known is None or known[0] is not content:
            known = self._contents[path, key] = content, read()
        return known[1]

    def of_scan(self, scan: Scan) -> pa.Table:
        rows = self._all_of(scan)
        return rows if self._lasting is None else self._lasting.table(rows)

    def _all_of(self, scan: Scan) -> pa.Table:
        schema, splits = scan.table_schema(), tuple(scan.plan().splits)
        place = scan.store.paths.branch, tuple(file.name for split in splits for file in split.files)
        earlier = self._scans.setdefault(place, [])
        for known in earlier:
            if known.schema == schema and known.splits == splits and self._are_unchanged(known.read):
                return known.rows
        rows = scan.to_arrow()
        earlier.append(_Known(schema, splits, self._read_by(scan), rows))
        return rows

    def _read_by(self, scan: Scan) -> dict[str, Content]:
        """Return the files that the store of a scan has read since it was opened."""
        log = cast("SimStore", scan.store.storage).log
        paths = {operation.path for operation in log if operation.name in READS}
        return {path: self._disk.files.get(path) for path in paths if path.split("/")[-2] not in PLANNED_FROM}

    def _are_unchanged(self, read: dict[str, Content]) -> bool:
        return all(self._disk.files.get(path) is content for path, content in read.items())
