"""A read whose rows are the results of an action's units: its tasks run the units."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.errors import ConfigError
from penstock.ingest.carried_errors import ErrorMark

# How the names of the folders begin that have the files of units.
FOLDER_PREFIX = "penstock-units-"
_RESULT = pa.schema([("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """The units of one task, pickled with the function that works on them."""

    body: bytes
    mark: ErrorMark


class UnitReader(DataSourceReader):
    """Reads the results of the units in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each group of units."""
        with open(self.path, "rb", opener=_without_links) as file:
            found = os.fstat(file.fileno())
            # Only a file that a process of this user wrote for this purpose, and for itself alone, is unpickled.
            private = found.st_uid == os.getuid() and found.st_mode == stat.S_IFREG | 0o600
            if not private or not Path(self.path).parent.name.startswith(FOLDER_PREFIX):
                raise ConfigError(
                    "the file of action-units was not written by the catalog",
                    file=self.path,
                    hint="remove the option: the catalog sets it in the jobs of CALL and DELETE",
                )
            groups = pickle.loads(file.read())  # noqa: S301 -- see above
        return [InputPartition(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the units, and yield their results."""
        pa.set_cpu_count(1)
        group: UnitGroup = partition.value
        with group.mark.carrying():
            work, units = pickle.loads(group.body)  # noqa: S301 -- pickled by the action
            for unit in units:
                body = pa.array([pickle.dumps(work(unit))], pa.binary())
                yield pa.RecordBatch.from_arrays([body], schema=_RESULT)


def _without_links(path: str, flags: int) -> int:
    """Open a file that is not a symbolic link, which could name a private file of another purpose."""
    return os.open(path, flags | os.O_NOFOLLOW)
