"""The commit protocol is safe in every order of its actors, and each of its rules is necessary for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.bound_protocol import explore_bound
from tests.simulation.protocol import Actor, Rules, compactor, explore, full_compactor, writer

PLAIN, VECTORS = Rules(), Rules(deletion_vectors=True)


@pytest.mark.parametrize(
    ("rules", "actors"),
    [
        (PLAIN, [writer(0, 2), writer(1, 2)]),
        (PLAIN, [writer(0, 2), writer(0), compactor(0)]),
        (PLAIN, [writer(0, 2), compactor(0), full_compactor(0)]),
        (VECTORS, [writer(0, 2), compactor(0, 2), compactor(0, 2)]),
        (VECTORS, [writer(0, 2), compactor(0, 2), full_compactor(0)]),
        (VECTORS, [writer(0), writer(1), compactor(0), full_compactor(1)]),
    ],
)
def test_no_order_of_writers_and_compactors_loses_or_repeats_a_row(rules: Rules, actors: list[Actor]) -> None:
    assert explore(rules, *actors) is None


@pytest.mark.parametrize(
    ("rules", "actors", "wrong"),
    [
        (replace(PLAIN, create_if_absent=False), [writer(0), writer(1)], "an acknowledged write is not in the history"),
        (replace(PLAIN, sees_foreign_rows=False), [writer(0), writer(0)], "was written last"),
        (replace(PLAIN, inputs_still_live=False), [writer(0), compactor(0), compactor(0)], "level 1 overlap"),
        (
            replace(VECTORS, inputs_still_live=False),
            [writer(0, 2), compactor(0, 2), compactor(0)],
            "the key is there 2 times",
        ),
        (
            replace(VECTORS, hidden_still_live=False),
            [writer(0, 2), compactor(0, 2), full_compactor(0)],
            "a file that is gone",
        ),
        (
            replace(VECTORS, vectors_still_current=False),
            [writer(0, 2), compactor(0, 2), full_compactor(0)],
            "there 2 times",
        ),
    ],
)
def test_protocol_without_any_of_its_rules_is_violated(rules: Rules, actors: list[Actor], wrong: str) -> None:
    assert wrong in str(explore(rules, *actors))


@pytest.mark.parametrize(
    ("rules", "actors"),
    [
        (PLAIN, [writer(0), writer(0), compactor(0)]),
        (PLAIN, [writer(0, 2), compactor(0), full_compactor(0)]),
        (VECTORS, [writer(0, 2), compactor(0), full_compactor(0)]),
        (VECTORS, [writer(0, 2), compactor(0), compactor(0)]),
    ],
)
def test_the_committer_refuses_what_the_protocol_refuses(rules: Rules, actors: list[Actor]) -> None:
    assert explore_bound(rules, *actors) > 20


@pytest.mark.slow
def test_the_committer_keeps_the_protocol_in_larger_cases() -> None:
    assert explore_bound(VECTORS, writer(0, 2), compactor(0, 2), full_compactor(0)) > 100
