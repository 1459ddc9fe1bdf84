"""The reader of changes in a story notices changes that are lost, doubled, or read again after they were processed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.read import follow
from tests.simulation.story import Step, Story
from tests.stories.performance import Performance, StoryFailed

APPENDED: Mapping[str, str] = {"bucket": "-1"}
LOOKUP: Mapping[str, str] = {"bucket": "1", "changelog-producer": "lookup"}
CONSUME: Step = {"op": "consume", "most": None}


def played(options: Mapping[str, str]) -> Performance:
    keys = [] if options is APPENDED else ["k"]
    write: Step = {"op": "write", "columns": ["k", "v"], "rows": [["+I", 1, "a"], ["+I", 2, "b"]]}
    steps = [write, CONSUME, {**write, "rows": [["+I", 1, "c"]]}, write, {**CONSUME, "most": 1}, CONSUME]
    return Performance(Story([("k", "INT NOT NULL"), ("v", "STRING")], keys, steps, options))


@pytest.mark.parametrize("options", [APPENDED, LOOKUP], ids=["appended", "lookup"])
def test_a_reader_gets_each_change_once(options: Mapping[str, str]) -> None:
    played(options).run()


@pytest.mark.parametrize("options", [APPENDED, LOOKUP], ids=["appended", "lookup"])
def test_lost_changes_are_noticed(options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    changes = follow._changes_of
    monkeypatch.setattr(follow, "_changes_of", lambda store, snapshot: changes(store, snapshot).slice(1))
    with pytest.raises(StoryFailed, match="'consume'"):
        played(options).run()


@pytest.mark.parametrize("options", [APPENDED, LOOKUP], ids=["appended", "lookup"])
def test_doubled_changes_are_noticed(options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    changes = follow._changes_of
    monkeypatch.setattr(
        follow, "_changes_of", lambda *arguments: pa.concat_tables([changes(*arguments), changes(*arguments)])
    )
    with pytest.raises(StoryFailed, match="'consume'"):
        played(options).run()


def test_a_place_that_is_not_stored_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    put = ConsumerFiles.put
    monkeypatch.setattr(ConsumerFiles, "put", lambda files, name, number, *_: put(files, name, min(number, 2)))
    with pytest.raises(StoryFailed, match="the consumer is at 2"):
        played(APPENDED).run()
