"""Stories that several implementations play in turn on one table leave rows that all of them read alike."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.oracle.client import Oracle
from tests.interop.pypaimon.client import Pypaimon
from tests.interop.pypaimon_rust.client import PypaimonRust
from tests.simulation.story import Story
from tests.stories.older_penstock import COMMIT, OlderPenstock
from tests.stories.peer_play import OtherPeers, play
from tests.stories.plot import story_of

# These have steps of all peers: keys, no keys, partitions, aggregates, deletion vectors.
SEEDS = (0, 1, 3, 12)
NIGHT = int(os.environ.get("PENSTOCK_PEER_STORIES", "2000"))
FIRST = int(os.environ.get("PENSTOCK_PEER_SEED", "1000"))


@pytest.fixture(scope="module")
def others(oracle: Oracle, pypaimon: Pypaimon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherPeers]:
    folder = tmp_path_factory.mktemp("peers")
    with PypaimonRust.started(folder) as rust, OlderPenstock.started(folder) as older:
        yield OtherPeers(oracle, pypaimon, rust, older)


def test_an_older_penstock_runs_from_its_own_sources(others: OtherPeers) -> None:
    if others.older is None:
        pytest.skip(f"CANNOT RUN HERE: this clone has no commit {COMMIT}; fetch its whole history")
    assert COMMIT in others.older.version()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_peers_in_turn_agree(others: OtherPeers, tmp_path: Path, seed: int) -> None:
    assert play(story_of(seed, further=False), tmp_path, others).done


@pytest.mark.slow
@pytest.mark.timeout(40_000)
def test_peers_agree_in_many_stories(others: OtherPeers, tmp_path: Path, night: bool) -> None:
    for seed in range(FIRST, FIRST + (NIGHT if night else 1)):
        played = play(story_of(seed, further=False), tmp_path, others)
        shutil.rmtree(played.ours.path)


def test_a_peer_that_reads_other_rows_fails_the_story(others: OtherPeers, tmp_path: Path) -> None:
    rows = {"op": "write", "columns": ["k"], "rows": [["+I", 1]]}
    story = Story([("k", "INT NOT NULL")], ["k"], [rows], {"bucket": "1"}, seed=1)
    performed = play(story, tmp_path, others)
    performed.model.apply([["+I", 2]])
    with pytest.raises(AssertionError, match="penstock disagrees"):
        performed.check()
