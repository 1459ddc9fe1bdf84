"""Stories that Penstock, Java Paimon and pypaimon play in turn on one table leave rows that all of them read alike."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.interop.oracle.client import Oracle
from tests.interop.pypaimon.client import Pypaimon
from tests.simulation.story import Story
from tests.stories.peers import play
from tests.stories.plot import story_of

# These have steps of all three peers: keys, no keys, partitions, aggregates, deletion vectors.
SEEDS = (0, 1, 3, 12)
NIGHT = int(os.environ.get("PENSTOCK_PEER_STORIES", "2000"))
FIRST = int(os.environ.get("PENSTOCK_PEER_SEED", "1000"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_peers_in_turn_agree(oracle: Oracle, pypaimon: Pypaimon, tmp_path: Path, seed: int) -> None:
    assert play(story_of(seed), tmp_path, oracle, pypaimon).done


@pytest.mark.slow
@pytest.mark.timeout(40_000)
def test_peers_agree_in_many_stories(oracle: Oracle, pypaimon: Pypaimon, tmp_path: Path, night: bool) -> None:
    for seed in range(FIRST, FIRST + (NIGHT if night else 1)):
        played = play(story_of(seed), tmp_path, oracle, pypaimon)
        shutil.rmtree(played.ours.path)


def test_a_peer_that_reads_other_rows_fails_the_story(oracle: Oracle, pypaimon: Pypaimon, tmp_path: Path) -> None:
    rows = {"op": "write", "columns": ["k"], "rows": [["+I", 1]]}
    story = Story([("k", "INT NOT NULL")], ["k"], [rows], {"bucket": "1"}, seed=1)
    performed = play(story, tmp_path, oracle, pypaimon)
    performed.model.apply([["+I", 2]])
    with pytest.raises(AssertionError, match="penstock disagrees"):
        performed.check()
