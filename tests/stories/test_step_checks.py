"""Each step of a story is checked: a fault that a later step heals is found, and the checks change nothing."""

from __future__ import annotations

import pytest

from tests.simulation.story import Step, Story
from tests.stories.performance import Performance, StoryFailed
from tests.stories.plot import story_of
from tests.stories.shrink import faults_of
from tests.stories.step_checks import StepChecks

WRITE: Step = {"op": "write", "columns": ["k"], "rows": [["+I", 1]]}
STORY = Story([("k", "INT NOT NULL")], ["k"], [WRITE] * 5, {"bucket": "1", "write-only": "true"})


class Healed(Performance):
    """The first data file is away after the third step, and is there again before the fourth."""

    def _play(self, step: Step, number: int) -> None:
        if number == 4:
            self.disk.put(*self.taken)
        super()._play(step, number)

    def _check_newest(self) -> None:
        super()._check_newest()
        if len(self.steps_done) == 3:
            path = min(path for path in self.disk.files if "/bucket-0/" in path)
            self.taken = path, self.disk.files[path][0]
            self.disk.remove(path)


@pytest.mark.parametrize("thorough", [False, True])
def test_a_fault_that_the_next_step_heals_is_found(thorough: bool) -> None:
    with pytest.raises(StoryFailed, match=r"step 3 .*\n?.*I2 snapshot 1 names"):
        Healed(STORY, thorough=thorough).run()


def test_a_check_at_the_end_alone_does_not_find_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepChecks, "check", lambda *_: None)
    Healed(STORY).run()


# With and without faults, wider options, further clients, and rows that expire.
@pytest.mark.parametrize("seed", [4, 5, 1002, 1009, 1012, 1013])
def test_the_checks_change_nothing_in_a_story(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    story = story_of(seed)
    traces = [Performance(story, faults_of(seed), thorough=thorough).run().trace for thorough in (False, True)]
    monkeypatch.setattr(StepChecks, "check", lambda *_: None)
    assert traces == [Performance(story, faults_of(seed)).run().trace] * 2
