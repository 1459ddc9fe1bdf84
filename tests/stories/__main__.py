"""Plays random stories from the command line; the package's docstring has the commands."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from pathlib import Path

from tests.simulation.store import sometimes
from tests.simulation.story import Story
from tests.stories.performance import Performance, StoryFailed
from tests.stories.plot import story_of
from tests.stories.shrink import faults_of, shrunk

KEPT = Path(__file__).parent / "kept"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stories")
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--shrink", type=int, metavar="SEED", help="find a shorter story that fails in the same way")
    parser.add_argument("--no-faults", action="store_true", help="play on a store that never fails")
    parser.add_argument("--with", dest="words", default="", metavar="WORDS", help="only stories that contain all words")
    parser.add_argument("--stop", action="store_true", help="stop at the first story that fails")
    arguments = parser.parse_args()
    if arguments.shrink is not None:
        return shrink_one(arguments.shrink)
    # Modules live as long as the process: no collection needs to look at them. Of a story, little is left in circles.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    started, causes, played = time.process_time(), Counter[str](), 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        story = story_of(seed)
        if not all(word in str(story) for word in arguments.words.split()):
            continue
        failure = play(story, faults=not arguments.no_faults)
        played += 1
        if failure is not None:
            causes[failure.cause] += 1
            print(failure, flush=True)
            if arguments.stop:
                break
    seconds = time.process_time() - started
    print(f"{played} stories, {causes.total()} failed, {played / seconds * 3600:,.0f} an hour of CPU")
    for cause, number in causes.most_common():
        print(f"  {number:5} {cause}")
    return 1 if causes else 0


def shrink_one(seed: int) -> int:
    story = shrunk(story_of(seed))
    print(story)
    print(story.keep(KEPT, f"seed_{seed}"))
    return 0


def play(story: Story, *, faults: bool = True) -> StoryFailed | None:
    try:
        Performance(story, faults_of(story.seed) if faults else sometimes(0, story.seed)).run()
    except StoryFailed as failure:
        return failure
    return None


if __name__ == "__main__":
    sys.exit(main())
