"""The places of keys that a writer assigned and that are not yet in the table's index."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from penstock.table.dynamic_buckets.index_runs import Ints, KeyRun, merged_pieces, united, write_run
from penstock.table.dynamic_buckets.key_index import KeyIndex, find_places
from penstock.table.values.fingerprints import Fingerprints

_MOST_RUNS = 8
_HELD_ROWS = 1 << 20


class Overlay:
    """Keys and their places: up to a million in memory, more in a temporary folder deleted with this object."""

    def __init__(self) -> None:
        self._runs: list[KeyRun] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def find(self, keys: Fingerprints) -> Ints:
        """Return the place of each key, UNKNOWN if it is not here."""
        return find_places(self._runs, keys)

    def places(self, index: KeyIndex, second: int) -> Iterator[Ints]:
        """Yield the places that the index has for the keys placed here, run by run."""
        for run in self._runs:
            yield index.find(Fingerprints(run.high, run.low), second)

    def add(self, run: KeyRun) -> None:
        """Add distinct keys in any order. Their earlier places are replaced."""
        self._runs.append(united([run]))
        if len(self._runs) > _MOST_RUNS:
            self._runs = self._merged()

    def _merged(self) -> list[KeyRun]:
        """Return the runs merged. The largest run is left alone until the others have half as many keys."""
        first, rest = self._runs[0], self._runs[1:]
        if len(first) > _HELD_ROWS and sum(map(len, rest)) < len(first) // 2:
            return [first, united(rest)]
        if sum(map(len, self._runs)) <= _HELD_ROWS:
            return [united(self._runs)]
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="penstock-keys-")
        return [write_run(Path(self._folder.name) / uuid.uuid4().hex, merged_pieces(self._runs))]
