"""Runs random scripts from the command line; the package's docstring has the commands."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.statements.dice import Dice
from tests.statements.play import DuckDb, Engine, Play, ScriptFailed, failure_of, keep, shrunk

KEPT = Path(__file__).parent / "kept"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.statements")
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="find a shorter script that fails in the same way")
    parser.add_argument("--stop", action="store_true", help="stop at the first script that fails")
    given = parser.parse_args()
    engine = engine_of(given.engine)
    if given.shrink is not None:
        return shrink_one(engine, given.shrink, given.steps)
    started, causes, statements = time.process_time(), Counter[str](), 0
    for seed in range(given.first, given.first + given.count):
        play = Play(engine, Dice(seed).script(given.steps))
        try:
            play.run()
        except ScriptFailed as failure:
            causes[failure.cause] += 1
            print(f"seed {seed}, {failure}", flush=True)
        statements += len(play.ran)
        if causes and given.stop:
            break
    seconds = time.process_time() - started
    print(f"{statements} statements, {causes.total()} scripts failed, {seconds:.0f} s of CPU")
    for cause, number in causes.most_common():
        print(f"  {number:5} {cause}")
    return 1 if causes else 0


def engine_of(name: str) -> Engine:
    if name == "duckdb":
        return DuckDb()
    from tests.statements.spark import Spark

    return Spark()


def shrink_one(engine: Engine, seed: int, steps: int) -> int:
    failure = failure_of(engine, Dice(seed).script(steps))
    if failure is None:
        print(f"the script of seed {seed} does not fail")
        return 1
    failure = shrunk(engine, failure)
    print(failure)
    print(keep(KEPT, f"seed_{seed}", failure.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
