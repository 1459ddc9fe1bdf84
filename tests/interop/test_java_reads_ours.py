"""Java reads tables that we write, and both may write one table in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.storage.local import LocalStorage
from penstock.table.meta.store import TableStore
from tests.golden.cases import Case
from tests.golden.relations import Relation, difference, unordered_columns
from tests.interop.oracle.client import Oracle
from tests.interop.stories import BYSTANDERS, story_names
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
# and even there the rows of one commit are sorted the wrong way round (which Java 2 mends, and ours never did).
ALONE = "merge_seq_desc"


@pytest.fixture
def judge(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> Iterator[Oracle]:
    if name != ALONE:
        yield request.getfixturevalue("oracle")
        return
    with Oracle.started(tmp_path / "oracle.log") as fresh:
        yield fresh


# A full compaction of Java's that rewrites a single file leaves that file's deletion vector in the index.
EXCUSED = {"bucket_dynamic_dv": ["I12"]}


def golden_cases() -> list[Any]:
    never = [pytest.mark.never("Java sorts the wrong way"), pytest.mark.xfail(strict=True)]
    turns = [(name, turn) for turn in TURNS for name in story_names()]
    return [pytest.param(*turn, marks=never if turn[0] == ALONE else ()) for turn in turns]


@pytest.mark.java
@pytest.mark.parametrize(("name", "turns"), golden_cases())
def test_golden_histories_written_by_us_have_the_rows_of_java(
    judge: Oracle, tmp_path: Path, name: str, turns: str
) -> None:
    case, path, storage = Case(name), tmp_path / "golden.db" / name, LocalStorage(sync=False)
    story, expected = Story.of_case(case), case.latest
    if any("orc" in value for value in story.options.values()):
        story = story.tamed()
        expected = written_by_java(judge, story, tmp_path)
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
    wrong = difference(expected, judge.read(path)) or difference(expected, table.scan().to_arrow())
    assert wrong is None, wrong
    check_invariants(table, oracle=judge, excused=EXCUSED.get(name, ()))


def written_by_java(judge: Oracle, story: Story, folder: Path) -> Relation:
    keys = {"primary_keys": story.primary_keys, "partition_keys": story.partition_keys}
    path = judge.create(folder, "java.t", story.columns, options=story.options, **keys)
    java = Javas(judge, path)
    for place, step in enumerate(story.steps):
        java.tell(step, None if "user" in step or "overwrite" in step else place)
    return replace(judge.read(path), unordered=unordered_columns(story.options))
