"""Random histories of tags, branches, rollbacks, fast-forwards and expiry; the module `histories` defines them."""

from __future__ import annotations

import pytest

from tests.simulation.histories import History
from tests.simulation.plays import count_play

FEW, MANY = 40, 2_000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_state_of_a_history_is_complete(part: int, night: bool) -> None:
    count = (MANY if night else FEW) // 4
    for seed in range(part * count, (part + 1) * count):
        History(seed).run(steps=14)
        count_play()
