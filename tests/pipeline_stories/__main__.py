"""Plays random stories of pipelines from the command line; the package's docstring has the commands."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from pathlib import Path

from tests.pipeline_stories.failure import StoryFailed
from tests.pipeline_stories.plot import story_of
from tests.pipeline_stories.shrink import failure_of, shrunk

KEPT = Path(__file__).parent / "kept"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline_stories")
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--shrink", type=int, metavar="SEED", help="find a shorter story that fails in the same way")
    parser.add_argument("--with", dest="words", default="", metavar="WORDS", help="only stories that contain all words")
    parser.add_argument("--stop", action="store_true", help="stop at the first story that fails")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.shrink is not None:
        story = shrunk(story_of(arguments.shrink))
        print(story, failure_of(story), story.keep(KEPT, f"seed_{arguments.shrink}"), sep="\n")
        return 0
    return play(arguments)


def play(arguments: argparse.Namespace) -> int:
    started, causes, played = time.process_time(), Counter[str](), 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        story = story_of(seed)
        if not all(word in str(story) for word in arguments.words.split()):
            continue
        failure: StoryFailed | None = failure_of(story)
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


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a story
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
