"""What ours writes Java reads; and the two may take turns on one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.table.meta.store import TableStore
from penstock.table.storage.local import LocalStorage
from tests.golden.cases import Case
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.interop.stories import BYSTANDERS, gap, story_names
from tests.invariants import check_invariants
from tests.simulation.story import Story
from tests.simulation.tellers import Javas, NotTold, Ours, create_ours

Chosen = Callable[[int], bool]
TURNS: dict[str, Chosen] = {
    "ours alone": lambda _: True,
    "ours first": lambda place: place % 2 == 0,
    "Java first": lambda place: place % 2 == 1,
}


# Java keeps a comparator for columns of some types and forgets which way it sorts. This table needs a JVM of its own,
# and even there its compaction sorts what ours wrote by the comparator of its write buffer, the wrong way round.
ALONE = "merge_seq_desc"


@pytest.fixture
def judge(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> Iterator[Oracle]:
    if name != ALONE:
        yield request.getfixturevalue("oracle")
        return
    with Oracle.started(tmp_path / "oracle.log") as fresh:
        yield fresh


def told() -> list[Any]:
    never = [pytest.mark.never("Java sorts the wrong way"), pytest.mark.xfail(strict=True)]
    turns = [(name, turn) for turn in TURNS for name in story_names()]
    return [pytest.param(*turn, marks=never if turn == (ALONE, "ours first") else ()) for turn in turns]


@pytest.mark.java
@pytest.mark.parametrize(("name", "turns"), told())
def test_golden_story_told_by_ours_ends_in_the_rows_java_has(
    judge: Oracle, tmp_path: Path, name: str, turns: str
) -> None:
    case, path, storage = Case(name), tmp_path / "golden.db" / name, LocalStorage(sync=False)
    story = Story.of_case(case)
    if (missing := gap(story)) is not None:
        pytest.xfail(f"notimpl: {missing}")
    create_ours(story, storage, str(path))
    ours = Ours(lambda branch: TableStore.open(storage, str(path), branch))
    java = Javas(judge, path)
    for place, step in enumerate(story.steps):
        if step["op"] in BYSTANDERS:
            continue
        identifier = None if "user" in step or "overwrite" in step else place
        try:
            (ours if TURNS[turns](place) else java).tell(step, identifier)
        except NotTold as step_unknown:
            pytest.xfail(f"notimpl: {step_unknown}")
    table = penstock.open_table(str(path))
    wrong = difference(case.latest, judge.read(path)) or difference(case.latest, table.scan().to_arrow())
    assert wrong is None, wrong
    check_invariants(table, oracle=judge)
