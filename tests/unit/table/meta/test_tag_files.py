"""Tags and consumers: Java's JSON, names taken once, times kept to the nanosecond."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.errors import TagMissing
from penstock.table.meta.consumer_files import Consumer, ConsumerFiles
from penstock.table.meta.tag_files import Tag, TagFiles, parse_tag, tag_json
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.table.meta.test_snapshot_files import LEAST, snapshot

KEPT = (
    LEAST[:-2]
    + ',\n  "tagCreateTime" : [ 2026, 11, 20, 23, 24, 29, 204123318 ],\n  "tagTimeRetained" : 315360000.000000000\n}'
)


@pytest.mark.parametrize("text", [LEAST, KEPT])
def test_tag_is_written_as_java_writes_it(text: str) -> None:
    assert tag_json(parse_tag(text.encode(), "t", "tag-t")).decode() == text


@pytest.mark.parametrize(
    ("parts", "nanos"),
    [
        ([1970, 1, 1, 0, 0], 0),
        ([1970, 1, 1, 0, 0, 1], 10**9),
        ([1970, 1, 1, 0, 1, 0, 5], 60 * 10**9 + 5),
        ([1969, 12, 31, 23, 59, 59, 1], 1 - 10**9),
    ],
)
def test_zeros_at_the_end_of_a_time_are_left_out(parts: list[int], nanos: int) -> None:
    assert json.loads(tag_json(Tag("t", snapshot(1), nanos, 1)))["tagCreateTime"] == parts


@given(st.integers(-(10**18), 4 * 10**18), st.integers(0, 2**62))
def test_times_survive_to_the_nanosecond(created: int, retained: int) -> None:
    tag = Tag("t", snapshot(1), created, retained)
    assert parse_tag(tag_json(tag), "t", "tag-t") == tag


@pytest.mark.parametrize(
    "change",
    [
        {"tagCreateTime": [2026]},
        {"tagCreateTime": [2026, 13, 1]},
        {"tagCreateTime": "now"},
        {"tagCreateTime": [2026, 1, None]},
        {"tagTimeRetained": "soon"},
        {"tagTimeRetained": 1e300},
        {"tagTimeRetained": []},
    ],
)
def test_odd_times_name_the_tag(change: dict[str, object]) -> None:
    with pytest.raises(TableCorrupt, match="/t/tag/tag-t"):
        parse_tag(json.dumps(json.loads(LEAST) | change).encode(), "t", "/t/tag/tag-t")


def test_tags_are_ordered_by_snapshot_and_name() -> None:
    tags = TagFiles(MemoryStore(), "/t")
    for name, number in (("b", 2), ("c", 1), ("a", 2)):
        assert tags.create(Tag(name, snapshot(number)))
    assert [tag.name for tag in tags.all()] == ["c", "a", "b"]
    assert tags.names() == ["a", "b", "c"]


def test_a_tag_name_is_used_once_until_deleted() -> None:
    tags = TagFiles(MemoryStore(), "/t")
    assert tags.create(Tag("a", snapshot(1)))
    assert not tags.create(Tag("a", snapshot(2)))
    assert tags.get("a").snapshot == snapshot(1)
    tags.delete("a")
    tags.delete("a")
    assert tags.find("a") is None


def test_a_missing_tag_names_the_nearest() -> None:
    tags = TagFiles(MemoryStore(), "/t")
    tags.create(Tag("2026-11-20", snapshot(1)))
    with pytest.raises(TagMissing, match="did you mean '2026-11-20'"):
        tags.get("2026-11-21")


@pytest.mark.parametrize("name", ["", " ", "a/b"])
def test_a_tag_name_that_is_not_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        TagFiles(MemoryStore(), "/t").create(Tag(name, snapshot(1)))
    with pytest.raises(ConfigError, match="cannot be the name"):
        ConsumerFiles(MemoryStore(), "/t").put(name, 1)


def test_consumers_are_updated_in_place() -> None:
    store = MemoryStore()
    consumers = ConsumerFiles(store, "/t")
    assert consumers.least_next_snapshot() is None
    consumers.put("b", 3)
    consumers.put("a", 9)
    consumers.put("b", 6)
    assert store.files["/t/consumer/consumer-b"] == b'{\n  "nextSnapshot" : 6\n}'
    assert [(item.id, item.next_snapshot) for item in consumers.all()] == [("a", 9), ("b", 6)]
    assert consumers.least_next_snapshot() == 6
    consumers.delete("b")
    assert consumers.next_snapshot("b") is None
    assert consumers.all() == [Consumer("a", 9, 1)]


def test_a_truncated_consumer_is_named() -> None:
    consumers = ConsumerFiles(MemoryStore({"/t/consumer/consumer-x": b"{"}), "/t")
    with pytest.raises(TableCorrupt, match="consumer-x"):
        consumers.all()
