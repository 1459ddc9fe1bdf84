"""Rows of canal that look alike are cut out without a parser: the same rows, or none at all."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.formats.canal import same_layout as canal_alike
from penstock.formats.canal.bulk import parse_rows
from penstock.formats.canal.same_layout import same_layout_rows

TEXTS = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(
        [
            "",
            "null",
            ":null",
            '":null',
            '"',
            "\\",
            '\\"',
            "\\\\",
            "},{",
            "}],[{",
            '"}],[{"a":"',
            ',"b":',
            "a/b",
            "é",
            "张三",
        ]
    ),
)


def documents(*rows: list[Any], **layout: Any) -> list[msgspec.Raw]:
    layout.setdefault("separators", (",", ":"))
    return [msgspec.Raw(json.dumps(row, ensure_ascii=False, **layout).encode()) for row in rows]


def rows_of(parsed: Any) -> tuple[list[int], list[list[str | None]]]:
    starts, columns = parsed
    for column in columns:
        column.validate(full=True)
    return starts.tolist(), [column.to_pylist() for column in columns]


@given(st.lists(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=3), min_size=1, max_size=9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_are_those_that_a_parser_finds(monkeypatch: pytest.MonkeyPatch, messages: list[Any]) -> None:
    monkeypatch.setattr(canal_alike, "PIECE", 2)
    data = documents(*[[dict(zip(["a", "b", "c"], row, strict=True)) for row in rows] for rows in messages])
    names = ["c", "a", "d"]
    found = same_layout_rows(data, names)
    if found is None:  # control characters are written by their number
        assert any(b"\\u" in bytes(item) for item in data)
    else:
        assert rows_of(found) == rows_of(parse_rows(data, names))


def test_texts_that_look_like_json_are_texts() -> None:
    odd = ['"},{"a":"', "}],[{", ':null,"b":', "\\", 'say "b":', "\n\t\r\b\f/"]
    found = same_layout_rows(documents(*[[{"a": text, "b": None}, {"a": None, "b": text}] for text in odd]), ["a", "b"])
    assert found is not None
    starts, (first, second) = rows_of(found)
    assert starts == list(range(0, 2 * len(odd) + 1, 2))
    assert [text for text in first if text is not None] == odd == [text for text in second if text is not None]


ALIKE = [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    "odd",
    [
        [],
        [{}],
        [None],
        [{"b": "2", "a": "1"}],
        [{"a": "1"}],
        [{"a": "1", "c": "2"}],
        [{"a": "1", "b": "2", "c": "3"}],
        [{"a": "1", "b": 2}],
        [{"a": "1", "b": True}],
        [{"a": "1", "b": 1234}],
        [{"a": "1", "b": ["2"]}],
        [{"a": "1", "b": {"b": "2"}}],
        [{"a": [{"a": "1", "b": "2"}], "b": "2"}],
        {"a": "1", "b": "2"},
        [[{"a": "1", "b": "2"}]],
        "text",
        7,
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_messages_with_another_layout_are_decoded_by_a_parser(odd: Any, *, first: bool) -> None:
    data = documents(odd, ALIKE, ALIKE) if first else documents(ALIKE, ALIKE, odd)
    assert same_layout_rows(data, ["a", "b"]) is None


@pytest.mark.parametrize(
    "odd",
    [
        b'[{"a":"\\u0031","b":"2"}]',
        b'[{"a":"\\ud800","b":"2"}]',
        b'[{"a":"\xff","b":"2"}]',
        b'[{"a": "1","b":"2"}]',
        b'[{"a":"1","b":"2"} ]',
        b'[{"a":"1",\n"b":"2"}]',
        b'[{"a":"1","b":"2"},{"a":"1","a":"2"}]',
        b'[{"\\u0061":"1","b":"2"}]',
    ],
)
def test_values_written_differently_are_decoded_by_a_parser(odd: bytes) -> None:
    alike = documents(ALIKE)
    assert same_layout_rows([*alike, msgspec.Raw(odd)], ["a", "b"]) is None


def test_columns_that_no_row_has_are_null_within_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = same_layout_rows(documents(ALIKE, ALIKE), ["x", "b"])
    assert found is not None
    assert rows_of(found) == ([0, 1, 2], [[None, None], ["2", "2"]])
    monkeypatch.setattr(canal_alike, "MOST_ABSENT", 1)
    assert same_layout_rows(documents(ALIKE, ALIKE), ["x", "b"]) is None
