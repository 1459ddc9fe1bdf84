"""Finds a shorter story that fails in the same way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.shrinking import shortest
from tests.simulation.store import Fault, Faults, Operation, never
from tests.simulation.story import Story
from tests.stories.performance import Performance, StoryFailed

RATE, RATE_OF_CREATES = 0.003, 0.03
FAULTS = tuple(Fault)


def faults_of(seed: int) -> Faults:
    """Return the faults of a story: every second story has a store that fails now and then.

    Creates fail more often, because whether a commit took effect depends on them.
    """
    if seed % 2 == 0:
        return never
    draw = random.Random(seed)

    def fault_of(operation: Operation) -> Fault | None:
        rate = RATE_OF_CREATES if operation.name == "create" else RATE
        return draw.choice(FAULTS) if draw.random() < rate else None

    return fault_of


def failure_of(story: Story) -> StoryFailed | None:
    try:
        Performance(story, faults_of(story.seed)).run()
    except StoryFailed as failure:
        return failure
    return None


def shrunk(story: Story) -> Story:
    """Remove steps, rows and options as long as the story fails with the same cause."""
    failure = failure_of(story)
    if failure is None:
        raise ValueError(f"story {story.seed} does not fail")
    story = replace(story, steps=story.steps[: failure.number])
    return shortest(story, failure.cause, shorter_ones, failure_of)


def shorter_ones(story: Story) -> Iterator[Story]:
    for place in reversed(range(len(story.steps))):
        yield replace(story, steps=[*story.steps[:place], *story.steps[place + 1 :]])
    for key in story.options:
        yield replace(story, options={name: value for name, value in story.options.items() if name != key})
    for place, step in enumerate(story.steps):
        rows = step.get("rows", ())
        for row in range(len(rows) if len(rows) > 1 else 0):
            fewer = {**step, "rows": [*rows[:row], *rows[row + 1 :]]}
            yield replace(story, steps=[*story.steps[:place], fewer, *story.steps[place + 1 :]])
