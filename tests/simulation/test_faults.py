"""Every storage operation of a story fails in every way, one at a time; the table must come out correct.

A normal run lets every fifth operation fail in one of the ways, in turn; `--night` tries all operations and all ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tests.simulation.playing import Play
from tests.simulation.plays import count_play
from tests.simulation.store import Fault, at
from tests.simulation.story import Story

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "INT")]
BEGINNING = [
    {"op": "write", "rows": [["+I", 1, "a", 1], ["+I", 2, "b", None], ["+I", 5, "e", 5]]},
    {"op": "alter", "changes": [{"kind": "add", "name": "extra", "type": "BIGINT"}]},
]
UPSERTS = [
    *BEGINNING,
    {"op": "write", "rows": [["+U", 1, "c", 2, 9], ["+I", 3, None, 3, None]]},
    {"op": "tag", "name": "kept", "snapshot": 1},
    {"op": "write", "rows": [["+I", 4, "e", 4, 4], ["+U", 1, None, 7, None]]},
    {"op": "compact", "full": True},
    {"op": "expire", "retain": 1},
    {"op": "write", "rows": [["+I", 2, "again", 5, 5], ["+U", 3, "x", None, None]]},
    {"op": "compact", "full": True},
]
DELETES = [
    *BEGINNING,
    {"op": "write", "rows": [["+U", 1, "c", 2, 9], ["-D", 2, None, None, None], ["+I", 3, "d", 3, None]]},
    {"op": "tag", "name": "kept", "snapshot": 1},
    {"op": "write", "rows": [["+I", 4, "e", 4, 4], ["-D", 5, None, None, None]]},
    {"op": "compact", "full": False},
    {"op": "rollback", "snapshot": 2},
    {"op": "write", "rows": [["-D", 3, None, None, None], ["+I", 2, "again", 5, 5]]},
    {"op": "expire", "retain": 1},
    {"op": "write", "rows": [["+I", 2, "more", 5, 5], ["+U", 3, None, None, None]]},
    {"op": "compact", "full": True},
]
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.v.aggregate-function": "max"}
STORIES = {
    "deduplicate, input": Story(COLUMNS, ["k"], DELETES, {"bucket": "2", "changelog-producer": "input"}),
    "deduplicate, lookup": Story(COLUMNS, ["k"], DELETES, {"bucket": "1", "changelog-producer": "lookup"}),
    "deduplicate, dynamic": Story(COLUMNS, ["k"], DELETES, {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    "deduplicate, vectors": Story(COLUMNS, ["k"], DELETES, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "partial-update, full": Story(
        COLUMNS,
        ["k"],
        UPSERTS,
        {"bucket": "1", "merge-engine": "partial-update", "changelog-producer": "full-compaction"},
    ),
    "aggregation": Story(COLUMNS, ["k"], UPSERTS, {"bucket": "1", **SUMS}),
    "first-row": Story(
        COLUMNS, ["k"], UPSERTS, {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"}
    ),
}
each_story = pytest.mark.parametrize("name", STORIES)


def failures(name: str, operations: int, *, all_of_them: bool) -> Iterator[tuple[int, Fault]]:
    if all_of_them:
        yield from product(range(1, operations + 1), Fault)
        return
    ways, shift = list(Fault), list(STORIES).index(name)
    yield from ((number, ways[(number // 5 + shift) % len(ways)]) for number in range(1 + shift % 5, operations + 1, 5))


@each_story
def test_history_succeeds_without_failures(name: str) -> None:
    assert len(Play(STORIES[name]).run().log) > 100


@each_story
@pytest.mark.timeout(3000)
def test_history_succeeds_after_a_failure_of_any_operation(name: str, night: bool) -> None:
    story = STORIES[name]
    for number, fault in failures(name, len(Play(story).run().log), all_of_them=night):
        try:
            Play(story, at(number, fault)).run()
            count_play()
        except Exception as error:
            raise AssertionError(
                f"operation {number} {fault.value}: Play(STORIES[{name!r}], at({number}, {fault}))"
            ) from error
