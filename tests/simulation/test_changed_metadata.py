"""One bit of a metadata file arrives changed in one read of a verb: an error by name, and never other rows.

Snapshots, manifests and their lists have no checksum. What nothing notices are numbers that no row depends on: counts,
sizes, times. Schemas are left out: with a changed letter or number of one, a column may be another one.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from penstock.errors import PenstockError
from tests.simulation.plays import count_play
from tests.simulation.store import Disk, Operation, SimStore
from tests.simulation.verbs import VERBS, VerbPlay

READS = {"read", "read_range", "open_input"}
VERBS_TRIED = ("write", "overwrite all", "compact", "expire", "delete", "manifests", "orphans")
KINDS_TRIED = ("lookup", "append", "vectors")


def is_metadata(operation: Operation) -> bool:
    return (
        operation.name in READS
        and not any(part in operation.path for part in ("/bucket-", "/schema/"))
        and not operation.path.endswith(("LATEST", "EARLIEST"))
    )


class ChangingStore(SimStore):
    """A store that changes one bit of what one operation reads."""

    def __init__(self, disk: Disk, operation: int, where: float) -> None:
        super().__init__(disk)
        self._operation, self._where = operation, where

    def _content(self, path: str) -> bytes:
        data = super()._content(path)
        if len(self.log) != self._operation or not data:
            return data
        bit, changed = int(self._where * len(data) * 8), bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)


@pytest.mark.parametrize(("kind", "verb"), [*product(KINDS_TRIED, VERBS_TRIED)])
def test_a_changed_bit_of_metadata_results_in_no_other_rows(kind: str, verb: str, night: bool) -> None:
    play, draw = VerbPlay(kind, verb), random.Random(f"{kind} {verb}")
    reads = [operation.number for operation in play.operations if is_metadata(operation)]
    for _ in range(400 if night else 6):
        number, where, disk = draw.choice(reads), draw.random(), play._copy()
        store = ChangingStore(disk, number, where)
        try:
            VERBS[verb](play._open(store, attempt=1))
        except PenstockError:  # any other error fails the test
            play._performed(disk, lambda operation: None)
        found = play._told(disk, check=False)
        assert found == play.expected, f"operation {number}, at {where}: {store.log[number - 1]}"
        count_play()
