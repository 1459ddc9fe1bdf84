"""Messages that are damaged in every place, among good ones of the same layout."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, Messages
from penstock.formats.layouts.message_groups import KnownLayouts, group_messages
from tests.unit.formats.layouts.test_layout_rows import shown

GOOD = [
    b'{"id":1,"name":"ab","amount":-12.50,"paid":true,"note":null}',
    b'{"id":12345678,"name":"","amount":0,"paid":false,"note":"it\\"s"}',
    b'{"id": 123456789, "name": "\xe5\x8c\x97", "amount": 1.5, "paid": null, "note": "a:b"}',
]
BYTES = [*b'":,\\{}[] -.09etnx', 0x00, 0x0A, 0x7F, 0xC3, 0xFF]


def damaged(good: bytes) -> Iterator[bytes]:
    """Every message with one byte removed, or with one of `BYTES` replaced or inserted."""
    for place in range(len(good)):
        yield good[:place] + good[place + 1 :]
        for byte in BYTES:
            yield good[:place] + bytes([byte]) + good[place + 1 :]
            yield good[:place] + bytes([byte]) + good[place:]


@pytest.mark.slow
@pytest.mark.parametrize("good", GOOD)
def test_messages_with_one_wrong_byte_are_read_as_by_the_parser(good: bytes) -> None:
    values = [message for damage in damaged(good) for message in (good, damage)]
    messages = Messages(values, np.arange(len(values)))
    found = [shown(decode("json", messages, DecodeOptions(bulk_rows=size))) for size in (1, 1_000_000)]
    for by_layout, by_record in zip(*found, strict=True):
        assert by_layout == by_record


def test_two_wrong_messages_that_balance_their_quotation_marks_are_both_bad() -> None:
    # The text of one has a mark too many; the array of the other has two marks less than that of its layout.
    good = [b'{"a":"x","b":["y"]}'] * 40
    values = [*good, b'{"a":"x"x","b":["y"]}', b'{"a":"x","b":[ y ]}', *good]
    decoded = decode("json", Messages(values, np.arange(len(values))), DecodeOptions(bulk_rows=1))
    assert [record.pos for record in decoded.bad] == [40, 41]


def test_usual_messages_all_have_a_layout() -> None:
    documents = [b'{"id":%d,"name":"n%d","amount":%d.25,"gone":null}' % (place, place, -place) for place in range(9000)]
    grouped = group_messages(documents, KnownLayouts(), 30)
    assert (grouped.others, sum(map(len, grouped.groups))) == ([], 9000)


def test_a_layout_that_few_messages_of_each_block_have_is_found() -> None:
    documents = [b'{"rare":%d}' % place if place % 300 == 50 else b'{"id":%d}' % place for place in range(9000)]
    grouped = group_messages(documents, KnownLayouts(), 30)
    assert (grouped.others, sorted(map(len, grouped.groups))) == ([], [30, 8970])
    for group in grouped.groups:
        assert group.cut([0]).to_pylist() == [str(number) for number in group.numbers.tolist()]


def test_many_small_layouts_are_left_to_the_parser() -> None:
    documents = [b'{"column%d":%d}' % (place % 500, place) for place in range(4000)]
    assert len(group_messages(documents, KnownLayouts(), 30).others) == 4000


def test_different_layouts_with_one_signature_are_separate_groups() -> None:
    # The names end in the same two letters.
    documents = [b'{"xabc":%d}' % place if place % 2 else b'{"yabc":%d}' % place for place in range(200)]
    grouped = group_messages(documents, KnownLayouts(), 30)
    assert sorted(len(group) for group in grouped.groups) == [100, 100]
    assert {group.layout.paths for group in grouped.groups} == {(("xabc",),), (("yabc",),)}


@pytest.mark.parametrize("tail", [b"\\", b"\\\\", b"\\\\\\", b'\\"', b"\\n"])
@pytest.mark.parametrize("head", [b"", b'"', b"\\", b"n", b'\\"', b" "])
def test_a_backslash_at_the_end_of_a_message_does_not_escape_the_next_message(tail: bytes, head: bytes) -> None:
    good = [b'{"a":"x%d\\n","b":%d}' % (number, number) for number in range(40)]
    decoded = decode(
        "json", Messages([*good, good[0] + tail, head + good[1]], np.arange(42)), DecodeOptions(bulk_rows=1)
    )
    assert [record.pos for record in decoded.bad] == ([40, 41] if head.strip() else [40])
    assert sorted(place for batch in decoded.batches for place in batch.positions.tolist())[:40] == [*range(40)]


def test_messages_with_escapes_have_their_values_by_layout() -> None:
    texts = ['"', "\\", "/", "a\nb", '\\"', "x", "", "\t" * 40, "\u5317\\n"]
    rows = [{"id": number, "text": texts[number % 9], "last": texts[number % 7]} for number in range(2700)]
    documents = [msgspec.json.encode(row).replace(b"/", b"\\/") for row in rows]
    groups = group_messages(documents, KnownLayouts(), 30).groups
    assert sum(map(len, groups)) == 2700
    for group in groups:
        for member, name in ((1, "text"), (2, "last")):
            assert group.cut([member]).to_pylist() == [rows[number][name] for number in group.numbers.tolist()]
            values = group.values(member, np.arange(5), msgspec.json.decode)
            assert values == [rows[number][name] for number in group.numbers[:5].tolist()]
        assert group.values(0, None, msgspec.json.decode) == group.numbers.tolist()
