"""`old` of many updates, read by layout: the same before images as from a parser, and no document that is not JSON."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from penstock.formats.canal import old_documents
from penstock.formats.canal.old_documents import FEWEST_ALIKE, OldBlock
from tests.unit.formats.canal.test_framed_rows import REPLACED, compare, message, raw, usual

TEXTS = ["", "a", "7", "null", '"', "\\", '":"', '"}],[{"id":"', "grün", "\u2028", "x" * 40, "\n", None]
CHANGED: list[tuple[str, ...]] = [("name",), ("kind",), ("name", "kind"), ("kind", "name"), ("id",), ("other",), ()]


def document(value: Any, **layout: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), **layout).encode()


def test_documents_are_grouped_by_the_columns_that_they_name() -> None:
    count = FEWEST_ALIKE
    documents = [[document([{name: str(number)}]) for name in ("city", "velocity")] for number in range(count)]
    odd = [b"[null]", b"[]", b'[{"a":1}]']
    block = OldBlock([*(one for pair in documents for one in pair), *odd])
    found = {tuple(one.rows.columns): one for one in block.layouts}
    assert set(found) == {("city",), ("velocity",)}
    for names, layout in found.items():
        assert layout.places.tolist() == list(range(names != ("city",), 2 * count, 2))
        assert layout.rows.column(names[0]).to_pylist() == [str(number) for number in range(count)]
    assert [block.documents[place] for place in block.others.tolist()] == odd
    assert block.are_json(by_layout=True)


def test_few_documents_are_left_to_a_parser() -> None:
    block = OldBlock([b'[{"a":"1"}]'] * (FEWEST_ALIKE - 1))
    assert not block.layouts
    assert len(block.others) == len(block)


@pytest.mark.parametrize("documents", [[], [b""], [b'"'], [b'":', b"1"], [b'":'] * FEWEST_ALIKE, [b""] * FEWEST_ALIKE])
def test_documents_without_names_have_no_layout(documents: list[bytes]) -> None:
    block = OldBlock(documents)
    assert not block.layouts
    assert block.are_json(by_layout=True) == block.are_json(by_layout=False) == (not documents)


@pytest.mark.parametrize(
    "odd", [[b"null,null", b"[1", b"2]"], [b"[1 ", b" 2]"], [b" null"], [b"[nul]"], [b'[{"a":"1"}', b',{"a":"2"}]']]
)
def test_documents_that_only_together_look_like_json_are_none(odd: list[bytes]) -> None:
    few, many = [b'[{"a":"1"}]', b"null", b"[]"], [b'[{"a":"1"}]'] * (2 * FEWEST_ALIKE)
    for good in (few, many):
        for by_layout in (False, True):
            assert OldBlock(good).are_json(by_layout=by_layout)
            assert not OldBlock([*good, *odd]).are_json(by_layout=by_layout)
            assert not OldBlock([*odd, *good]).are_json(by_layout=by_layout)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_documents, "FEWEST_ALIKE", 2)


def old_row(random: Random) -> dict[str, Any] | None:
    names = random.choice(CHANGED)
    row: dict[str, Any] = {name: random.choice(TEXTS) for name in names}
    if random.random() < 0.1:
        row["name"] = random.choice([5, 1.50, True, [1], {"a": "b"}])
    return None if random.random() < 0.05 else row


def update(number: int, random: Random) -> bytes:
    rows = random.choice((1, 1, 1, 2))
    count = rows if random.random() < 0.9 else random.randrange(4)
    row = message(number)["data"][0]
    data = [row | {"id": str(10 * number + place)} for place in range(rows)]
    return raw(message(number, "UPDATE", data=data, old=[old_row(random) for _ in range(count)]))


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("seed", range(12))
def test_before_images_are_those_that_a_parser_finds(seed: int) -> None:
    random = Random(seed)
    compare([update(number, random) for number in range(60)])


@pytest.mark.usefixtures("small_groups")
def test_damage_to_any_byte_of_an_old_row_is_decided_by_the_record_path() -> None:
    random = Random(3)
    good = raw(message(6, "UPDATE", old=[{"name": 'b"', "id": "5"}]))
    begin = good.index(b'"old":[') + 7
    for place in range(begin, good.index(b"]", begin)):
        byte = bytes([random.choice(REPLACED)])
        for changed in (good[:place] + byte + good[place + 1 :], good[:place] + good[place + 1 :]):
            compare([good, good, changed, good])


def test_old_rows_among_many_usual_ones_mean_what_they_mean_alone() -> None:
    many: list[bytes | None] = [*usual(6 * FEWEST_ALIKE)]
    for old in (
        [{"name": None}],
        [{"name": "a"}, {"name": "b"}],
        [],
        [None],
        [{"name": "a", "id": "1"}],
        [{"name": 1}],
    ):
        compare([*many, raw(message(7, "UPDATE", old=old)), *many[:9]])
