"""Every operation of a table, on every kind of table, with each store operation failing in each way, one at a time.

A normal run tries the creates, on which all commits rely, and some of the other store operations in one of the ways;
`--night` tries all store operations in all ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from tests.simulation.plays import count_play
from tests.simulation.store import Fault, Operation, at, sometimes
from tests.simulation.verbs import KINDS, PATH, VERBS, VerbPlay, is_for

OF_CREATES = (Fault.DENIED, Fault.LATE)
EVERY = 30
# The other kinds have every tenth verb in a normal run.
FIRST, OTHERS = ("lookup", "vectors", "dynamic", "append"), 10


def cases(*, all_of_them: bool) -> list[tuple[str, str]]:
    found = [(kind, verb) for kind in KINDS for verb in VERBS if is_for(kind, verb)]
    if all_of_them:
        return found
    return [case for place, case in enumerate(found) if case[0] in FIRST or place % OTHERS == 0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"kind", "verb"} <= set(metafunc.fixturenames):
        metafunc.parametrize(("kind", "verb"), cases(all_of_them=bool(metafunc.config.getoption("--night"))))


def shift_of(kind: str, verb: str, operations: int) -> int:
    """Return an offset so that each kind of table lets different store operations fail."""
    return (7 * list(KINDS).index(kind) + list(VERBS).index(verb)) % min(EVERY, operations)


def failures(operations: list[Operation], shift: int, *, all_of_them: bool) -> Iterator[tuple[int, Fault]]:
    if all_of_them:
        yield from product((operation.number for operation in operations), Fault)
        return
    yield from product((operation.number for operation in operations if operation.name == "create"), OF_CREATES)
    ways = list(Fault)
    numbers = range(1 + shift, len(operations) + 1, EVERY)
    yield from ((number, ways[(number // EVERY + shift) % len(ways)]) for number in numbers)


@pytest.mark.slow
@pytest.mark.timeout(20_000)
def test_an_operation_that_failed_once_succeeds_when_repeated(kind: str, verb: str, night: bool) -> None:
    play = VerbPlay(kind, verb)
    shift = shift_of(kind, verb, len(play.operations))
    for number, fault in failures(play.operations, shift, all_of_them=night):
        try:
            play.run(at(number, fault))
            count_play()
        except Exception as error:
            command = f"VerbPlay({kind!r}, {verb!r}).run(at({number}, {fault}))"
            raise AssertionError(f"operation {number} {fault.value}: {command}") from error


@pytest.mark.slow
@pytest.mark.timeout(20_000)
def test_a_failed_operation_keeps_the_table_complete(kind: str, verb: str, night: bool) -> None:
    play = VerbPlay(kind, verb)
    shift = shift_of(kind, verb, len(play.operations))
    for number in range(1 + (0 if night else shift), len(play.operations) + 1, 1 if night else EVERY):
        for fault in (Fault.DIES_AFTER, Fault.DIES_LATE, Fault.BEFORE) if night else (Fault.DIES_AFTER,):
            try:
                play.die(at(number, fault))
                count_play()
            except Exception as error:
                command = f"VerbPlay({kind!r}, {verb!r}).die(at({number}, {fault}))"
                raise AssertionError(f"operation {number} {fault.value}: {command}") from error


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_that_fails_repeatedly_succeeds_in_the_end(kind: str, night: bool) -> None:
    kinds = (Fault.BEFORE, Fault.AFTER, Fault.LATE, Fault.DENIED, Fault.DIES_AFTER, Fault.DIES_LATE)
    for verb in (verb for verb in VERBS if is_for(kind, verb)):
        play = VerbPlay(kind, verb)
        for seed in range(200 if night else 1):
            fails = sometimes(2 / max(len(play.operations), 10), seed, kinds)
            end = 2 * len(play.operations)
            try:
                play.run(lambda item, fails=fails, end=end: fails(item) if item.number < end else None)  # type: ignore[misc]
                count_play()
            except Exception as error:
                raise AssertionError(f"VerbPlay({kind!r}, {verb!r}) with seed {seed}") from error


@pytest.mark.slow
def test_a_commit_begins_with_the_newest_snapshot(kind: str, verb: str) -> None:
    """What takes its time comes before: after a rollback in between, its id may be that of another snapshot."""
    operations = VerbPlay(kind, verb).operations
    folder = f"{PATH}/snapshot/snapshot-"
    for place, operation in enumerate(operations):
        if operation.name != "create" or not operation.path.startswith(folder):
            continue
        newest = f"{folder}{int(operation.path.removeprefix(folder)) - 1}"
        last = max(
            at
            for at, operation in enumerate(operations[:place])
            if (operation.name, operation.path) == ("read", newest)
        )
        between = Counter(
            (operation.name, operation.path.removeprefix(f"{PATH}/").split("/")[0])
            for operation in operations[last + 1 : place]
        )
        # The schema is looked at once, by the attempt itself.
        assert between.pop(("list", "schema")) == 1
        assert between.keys() <= {("size", "schema"), ("read", "manifest"), ("write", "manifest")}
