"""Which transactions of the log a snapshot of the server sees."""

from __future__ import annotations

import numpy as np

from penstock.ingest.postgres.log.visible_transactions import VisibleTransactions


def seen(snapshot: str, *xids: int) -> list[bool]:
    found: list[bool] = VisibleTransactions.of(snapshot).includes(np.array(xids, np.int64)).tolist()
    return found


def test_running_and_later_transactions_are_invisible() -> None:
    assert seen("10:14:10,12", 9, 10, 11, 12, 13, 14, 15) == [True, False, True, False, True, False, False]
    assert seen("10:10:", 9, 10) == [True, False]


def test_numbers_of_transactions_are_compared_across_the_end_of_their_32_bits() -> None:
    round_ = 1 << 32
    next_ = 5 * round_ + 3
    running = 5 * round_ - 2  # the log shows it as 2^32 - 2
    snapshot = f"{running}:{next_}:{running}"
    assert seen(snapshot, round_ - 3, round_ - 2, round_ - 1, 0, 2, 3, 4) == [
        True,
        False,
        True,
        True,
        True,
        False,
        False,
    ]
