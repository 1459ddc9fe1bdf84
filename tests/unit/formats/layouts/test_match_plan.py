"""The usual plan of a layout: what was equal in all messages so far may differ in the next ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, Messages
from penstock.formats.layouts.message_groups import KnownLayouts, group_messages
from tests.unit.formats.layouts.test_layout_rows import shown
from tests.unit.formats.layouts.test_message_groups import damaged

CONSTANT = [("table",), ("source", "db")]


def message(number: int, **changes: Any) -> bytes:
    row = {"id": number, "note": f"n{number}", "mark": "m" if number % 2 else None}
    whole = {"table": "t1", "row": row, "source": {"db": "shop", "ts": number}, **changes}
    return json.dumps(whole, separators=(",", ":")).encode()


def cells(documents: list[bytes], known: KnownLayouts) -> dict[int, list[Any]]:
    """The values of each message as texts, by its number."""
    found: dict[int, list[Any]] = {}
    for group in group_messages(documents, known, 30).groups:
        columns = [group.cut([member]).to_pylist() for member in group.layout.scalars.tolist()]
        found |= dict(zip(group.numbers.tolist(), map(list, zip(*columns, strict=True)), strict=True))
        assert (np.diff(group.numbers) > 0).all()
        for member, text in group.same.items():
            assert set(group.cut([member]).to_pylist()) == {text}
    return found


def expected(document: bytes) -> list[str | None]:
    read = json.loads(document)
    values = [read["table"], *read["row"].values(), *read["source"].values()]
    return [None if value is None else str(value) for value in values]


CHANGES: list[dict[str, Any]] = [
    {"table": "t2"},
    {"table": "t11"},
    {"table": None},
    {"table": 5},
    {"table": ""},
    {"row": {"id": "five", "note": "x", "mark": "m"}},
    {"row": {"id": 5, "note": None, "mark": None}},
    {"row": {"id": 5, "note": "", "mark": 7}},
    {"source": {"db": "shop2", "ts": 5}},
    {"source": {"db": "sho", "ts": "6"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("share", [2, 7, 90])
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_values_that_were_equal_may_differ(change: dict[str, Any], share: int) -> None:
    known = KnownLayouts(*CONSTANT)
    cells([message(number) for number in range(5000)], known)
    documents = [message(number, **(change if number % share == 0 else {})) for number in range(3000)]
    for _ in range(6):
        assert cells(documents, known) == {number: expected(document) for number, document in enumerate(documents)}


def test_the_constant_members_of_usual_messages_are_known_to_be_equal() -> None:
    known = KnownLayouts(*CONSTANT)
    documents = [message(number) for number in range(6000)]
    cells(documents, known)
    groups = group_messages(documents, known, 30).groups
    assert sum(map(len, groups)) == 6000
    assert [sorted(group.same.values()) for group in groups] == [["shop", "t1"]] * len(groups)


def changes_of(name: str) -> Iterator[bytes]:
    for number in range(400):
        row = f'{{"id":{number},"name":"it\\"s","amount":-12.50,"note":null}}'
        if name == "maxwell-json":
            yield f'{{"database":"d","table":"one","type":"insert","ts":17,"data":{row}}}'.encode()
        elif name == "ogg-json":
            yield f'{{"table":"d.two","op_type":"I","op_ts":"2024-05-06 07:08:09","after":{row}}}'.encode()
        else:
            source = f'"source":{{"db":"d","table":"three","pos":{number}}}'
            yield f'{{"before":null,"after":{row},{source},"op":"c","ts_ms":17}}'.encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maxwell-json", "ogg-json", "debezium-json"])
def test_messages_with_one_wrong_byte_among_usual_ones_are_read_as_by_the_parser(name: str) -> None:
    good = list(changes_of(name))
    decode(name, Messages(good, np.arange(len(good))), DecodeOptions(bulk_rows=1))
    values = [value for damage in damaged(good[7]) for value in (good[5], damage)]
    messages = Messages(values, np.arange(len(values)))
    found = [shown(decode(name, messages, DecodeOptions(bulk_rows=size))) for size in (1, 1_000_000)]
    for by_layout, by_record in zip(*found, strict=True):
        assert by_layout == by_record


def test_a_constant_text_with_an_escape_is_no_part_of_the_plan() -> None:
    known = KnownLayouts(*CONSTANT)
    documents = [message(number).replace(b'"shop"', b'"sh\\/op"') for number in range(6000)]
    found = cells(documents, known)
    assert found == {number: expected(document) for number, document in enumerate(documents)}
    groups = group_messages(documents, known, 30).groups
    assert [sorted(group.same.values()) for group in groups] == [["t1"]] * len(groups)
