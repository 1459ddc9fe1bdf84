"""Steps of further clients of the table: statements of SQL, a reader of its changes, and reads that fall back.

A sixth of the stories has these steps. They are drawn separately, so that the other steps of a seed do not change.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.simulation.story import Step
from tests.stories.fallback_reads import OPTION
from tests.stories.statements import statement
from tests.stories.wider import FIRST

# Statements change the newest row of a key, or any row of a table without keys.
EXCLUDING = {"merge-engine", "sequence.field", "ignore-delete"}


def has_clients(seed: int) -> bool:
    """Return whether the story has the steps: one that has faults, and one that has none, of each twelve seeds."""
    return seed >= FIRST and seed % 12 in {1, 4}


def client_steps(
    seed: int, steps: Sequence[Step], keys: Sequence[str], options: Mapping[str, str], partitions: Sequence[str]
) -> list[Step]:
    draw, made = random.Random(f"{seed} clients"), list(steps)
    further: list[Step] = []
    if not EXCLUDING & options.keys():
        made = [_beside(draw, step, keys, partitions) for step in made]
        further += [statement(draw, keys, partitions) for _ in range(draw.choice((0, 2, 3, 4)))]
    if draw.random() < 0.7:
        further += [
            {"op": "consume", "most": draw.choice((None, None, 1, 2)), "options": ["consumer-id"]}
            for _ in range(draw.choice((2, 4, 6)))
        ]
        # The changes that it has read are undone, and it must read those that replace them.
        further += [
            {"op": "rollback", "which": draw.randrange(100), "to": "snapshot"} for _ in range(draw.choice((0, 1, 2)))
        ]
    if partitions:
        further += [
            {"op": "fallback", "which": draw.randrange(100), "options": [OPTION]} for _ in range(draw.choice((0, 2)))
        ]
    for step in further:
        made.insert(draw.randint(1, len(made)), step)
    return made


def _beside(draw: random.Random, step: Step, keys: Sequence[str], partitions: Sequence[str]) -> Step:
    """Let another process run a statement while some of the writes are under way."""
    if step["op"] != "write" or "branch" in step or draw.random() < 0.8:
        return step
    # The statement runs as a whole at one operation of the write: otherwise its rows would depend on the operation.
    return {"op": "meanwhile", "step": step, "at": draw.randrange(1, 16), "other": statement(draw, keys, partitions)}
