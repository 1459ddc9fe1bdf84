"""Unpacks, answers and checks the suite, and checks tables: the package's docstring has the commands."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from penstock.errors import PenstockError
from penstock.table.catalog.path_tables import open_table
from tests.acceptance.suite import answer, reads_in, unpack, verdicts
from tests.invariants import Broken, check_invariants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance")
    parser.add_argument("verb", choices=("unpack", "read", "check", "invariants"))
    parser.add_argument("folder", type=Path, help="the suite, or for `invariants` a table")
    arguments = parser.parse_args()
    match arguments.verb:
        case "unpack":
            print(f"{unpack(arguments.folder)} reads in {arguments.folder}")
            return 0
        case "read":
            read_with_penstock(arguments.folder)
            return 0
        case "invariants":
            return check_table(arguments.folder)
    return check(arguments.folder)


def read_with_penstock(folder: Path) -> None:
    for read in reads_in(folder):
        options = dict(read.options)
        table = open_table(str(folder / read.case / "table"), branch=options.pop("branch", None))
        answer(folder, read, table.scan(options=options).to_arrow())


def check_table(folder: Path) -> int:
    """Check the invariants of a table that any implementation wrote."""
    try:
        check_invariants(open_table(str(folder)))
    except Broken as error:
        print(error)
        return 1
    except PenstockError as error:
        print(f"{folder} cannot be read: {error}")
        return 1
    print("no invariant is broken")
    return 0


def check(folder: Path) -> int:
    counts = Counter[str]()
    for read, verdict in verdicts(folder):
        counts[verdict if verdict in {"right", "missing"} else "wrong"] += 1
        if verdict != "right":
            print(f"{read.case} {read.name}: {verdict}")
    print(f"{counts['right']} right, {counts['wrong']} wrong, {counts['missing']} missing")
    return 1 if counts["wrong"] or counts["missing"] or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
