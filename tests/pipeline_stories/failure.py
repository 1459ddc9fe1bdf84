"""The failure of a story, with the kind by which a shorter story fails in the same way."""

from __future__ import annotations

import re

from tests.pipeline_stories.story import Step, Story


class StoryFailed(AssertionError):
    """The failure of a story. `cause` is its kind: a shorter story with the same cause fails in the same way."""

    def __init__(self, story: Story, number: int, step: Step, error: Exception) -> None:
        text = str(error).splitlines() or [""]
        shown = str(step)[:200]
        super().__init__(f"seed {story.seed}, step {number} {shown}: {type(error).__name__}: " + "\n".join(text[:8]))
        self.number, self.error = number, error

    @property
    def cause(self) -> str:
        first = (str(self.error).splitlines() or [""])[0]
        words = re.sub(r"[0-9]+", "", first.partition(": lost")[0])
        kinds = re.findall(r"(?:lost|extra) \[.", first)
        return " ".join([type(self.error).__name__, words[:60], *kinds])
