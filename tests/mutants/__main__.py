"""Runs the mutants from the command line; the package's docstring has the commands."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.mutants.hunt import Limits, hunt
from tests.mutants.mutant import mutants

HEAD = "| mutant | promise | noticed by | seeds | seconds |\n|---|---|---|---:|---:|"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="mutants whose name contains this text")
    parser.add_argument("--stories", action="store_true", help="stories alone, also where tests are named")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=5000, help="the most stories for a mutant")
    parser.add_argument("--minutes", type=float, default=30, help="the most time for a mutant")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in mutants() if arguments.only in mutant.name]
    if arguments.stories:
        chosen = [mutant.for_stories() for mutant in chosen]
    limits = Limits(arguments.first, arguments.seeds, arguments.minutes * 60)
    print(HEAD)
    findings = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for finding in pool.map(partial(hunt, limits=limits), chosen):
            findings.append(finding)
            print(finding.row, flush=True)
    survived = [finding.mutant.name for finding in findings if finding.by is None]
    print(f"\n{len(findings) - len(survived)} of {len(findings)} mutants were noticed")
    for name in survived:
        print(f"survived: {name}")
    return 1 if survived or not findings else 0


if __name__ == "__main__":
    sys.exit(main())
