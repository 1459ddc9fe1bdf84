"""Two operations of a table at once: no file that a snapshot, a tag or a branch needs is deleted.

A normal run tries the pairs that once lost files at every store operation, and others at one; `--night` tries all
pairs at all operations.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from tests.simulation.pairs import STATES, VERBS, PairPlay
from tests.simulation.plays import count_play

KINDS = ("append", "vectors")
# After which a job that writes meanwhile builds on snapshots that are gone, as the documentation says.
ALONE = {"rollback", "rollback to snapshot", "rollback, delete tag", "fast-forward, delete branch"}
WRITERS = {"write", "compact", "overwrite one partition", "manifests"}
PAIRS = [
    pair for pair in product(VERBS, VERBS) if not (set(pair) & ALONE and (set(pair) & WRITERS or set(pair) <= ALONE))
]
LOST_FILES_ONCE = [
    ("orphans", "rename tag", "expired"),
    ("orphans", "tag again, delete tag", "expired"),
    ("orphans", "tag again, replace tag", "expired"),
    ("orphans", "branch, delete tag", "expired"),
    ("orphans", "rollback, delete tag", "expired"),
    ("expire", "tag again, delete tag", "no branch"),
    ("expire", "rollback to snapshot", "no branch"),
    ("expire", "rollback, delete tag", "no branch"),
    ("rollback to snapshot", "expire", "no branch"),
    ("rollback, delete tag", "expire", "expired"),
    ("delete tag", "rollback", "expired"),
    ("rollback", "delete tag", "expired"),
    ("branch", "delete tag", "expired"),
    ("rename tag", "delete tag", "expired"),
    ("branch", "expire tags", "expired"),
    ("fast-forward, delete branch", "copy files", "branch"),
    ("fast-forward, delete branch", "copy files", "expired, branch"),
    ("fast-forward, delete branch", "clone", "branch"),
    ("fast-forward, delete branch", "clone", "expired, branch"),
    ("copy files", "fast-forward, delete branch", "expired, branch"),
    ("clone", "fast-forward, delete branch", "expired, branch"),
    ("copy files", "rollback", "expired"),
    ("rollback", "copy files", "expired"),
    ("copy files", "expire", "branch"),
]


def play(kind: str, first: str, other: str, state: str, ats: list[int] | None = None) -> None:
    pair = PairPlay(kind, first, other, state)
    for at in ats or range(1, pair.operations + 1):
        try:
            pair.run(at)
            count_play()
        except Exception as error:
            raise AssertionError(f"PairPlay{(kind, first, other, state)}.run({at})") from error


@pytest.mark.slow
@pytest.mark.parametrize(("first", "other", "state"), LOST_FILES_ONCE, ids=str)
def test_files_are_kept_at_every_operation(first: str, other: str, state: str) -> None:
    play("append", first, other, state)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_files_are_kept_by_random_pairs(seed: int) -> None:
    draw = random.Random(seed)
    for first, other in draw.sample(PAIRS, 10):
        kind, state = draw.choice(KINDS), draw.choice(STATES)
        play(kind, first, other, state, [draw.randint(1, PairPlay(kind, first, other, state).operations)])


@pytest.mark.slow
@pytest.mark.timeout(20_000)
@pytest.mark.parametrize("first", VERBS)
def test_files_are_kept_by_all_pairs(first: str, night: bool) -> None:
    others = [other for one, other in PAIRS if one == first]
    for kind, other, state in product(KINDS, others, STATES) if night else [(KINDS[0], others[0], STATES[0])]:
        play(kind, first, other, state, None if night else [1])
