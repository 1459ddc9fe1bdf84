"""Every storage operation of a story fails in every way, one at a time; the table comes out whole."""

from __future__ import annotations

import pytest

from tests.simulation.playing import Play
from tests.simulation.store import Fault, at
from tests.simulation.story import Story

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "INT")]
STEPS = [
    {"op": "write", "rows": [["+I", 1, "a", 1], ["+I", 2, "b", None]]},
    {"op": "alter", "changes": [{"kind": "add", "name": "extra", "type": "BIGINT"}]},
    {"op": "write", "rows": [["+U", 1, "c", 2, 9], ["-D", 2, None, None, None], ["+I", 3, "d", 3, None]]},
    {"op": "tag", "name": "kept", "snapshot": 1},
    {"op": "write", "rows": [["+I", 4, "e", 4, 4]]},
    {"op": "expire", "retain": 1},
    {"op": "write", "rows": [["+I", 2, "again", 5, 5], ["+U", 3, None, None, None]]},
]
PLAIN = Story(COLUMNS, ["k"], STEPS, {"bucket": "2", "changelog-producer": "input"})


def test_story_without_faults_ends_well() -> None:
    assert len(Play(PLAIN).run().log) > 50


@pytest.mark.parametrize("fault", Fault)
def test_any_one_operation_may_fail(fault: Fault) -> None:
    for number in range(1, len(Play(PLAIN).run().log) + 1):
        try:
            Play(PLAIN, at(number, fault)).run()
        except BaseException as error:
            raise AssertionError(f"operation {number} {fault}") from error
