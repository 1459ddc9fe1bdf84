"""The first steps of 200 random stories: what `make check` plays of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.stories.performance import Performance
from tests.stories.plot import story_of
from tests.stories.shrink import faults_of

STORIES, GROUP, STEPS = 200, 20, 4


@pytest.mark.parametrize("first", range(0, STORIES, GROUP))
def test_the_first_steps_of_random_stories_succeed(first: int) -> None:
    """A failure has the seed of the whole story, which fails at the same step."""
    for seed in range(first, first + GROUP):
        story = story_of(seed)
        Performance(replace(story, steps=story.steps[:STEPS]), faults_of(seed)).run()
