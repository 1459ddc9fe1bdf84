"""The result of a compaction, from the files that it rewrote to the commit message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import CommitMessage, IndexEntry


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The changes of a compaction to one bucket: the files `before` are removed, the files `after` are added.

    An upgraded file is in both, on different levels, so only name and level together identify a file. `vectors` are
    all deletion vectors of the bucket, None if they are unchanged; `index` are the entries of their index files, once
    these are written.
    """

    before: tuple[DataFile, ...] = ()
    after: tuple[DataFile, ...] = ()
    changelog: tuple[DataFile, ...] = ()
    vectors: Mapping[str, np.ndarray[Any, Any]] | None = None
    index: tuple[IndexEntry, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.before or self.after)

    def applied_to(self, live: Iterable[DataFile]) -> list[DataFile]:
        """Return the files of the bucket after the compaction."""
        removed = {(file.name, file.level) for file in self.before}
        return [file for file in live if (file.name, file.level) not in removed] + list(self.after)

    def then(self, later: CompactionResult) -> CompactionResult:
        """Return this compaction and a later one of its outcome as one.

        A file that this one made and the later one replaced is in neither list.
        """
        after = {(file.name, file.level): file for file in self.after}
        existed = [file for file in later.before if after.pop((file.name, file.level), None) is None]
        after.update({(file.name, file.level): file for file in later.after})
        return CompactionResult(
            (*self.before, *existed),
            tuple(after.values()),
            self.changelog + later.changelog,
            self.vectors if later.vectors is None else later.vectors,
        )

    def into(self, message: CommitMessage) -> CommitMessage:
        """Return the message with this compaction as its COMPACT half."""
        return replace(
            message,
            compact_before=self.before,
            compact_after=self.after,
            compact_changelog=self.changelog,
            compact_index_changes=self.index,
        )
