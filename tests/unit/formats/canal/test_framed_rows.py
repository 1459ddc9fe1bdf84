"""Canal messages with a known frame have the rows of the record path; those with another byte are left to it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.formats import decode
from penstock.formats.canal import framed_messages, framed_rows
from penstock.formats.canal.framed_rows import BLOCK, add_framed
from penstock.formats.canal.known_frames import KnownFrames
from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from tests.unit.formats.support import placed

TYPES = {"id": "bigint", "name": "varchar(9)", "kind": "enum('a','b')"}
REPLACED = b'"\\:,{}[]0\n\xff n-.a'


def message(number: int, operation: str = "INSERT", **members: Any) -> dict[str, Any]:
    row = {"id": str(number), "name": None if number % 5 == 0 else "n" * (number % 7), "kind": "1"}
    old = [{"name": "before"}] if operation == "UPDATE" else None
    return {
        "data": [row],
        "database": "shop",
        "es": 1_700_000_000_000 + number,
        "id": number % 1000 + 1000,
        "isDdl": False,
        "mysqlType": TYPES,
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": dict.fromkeys(TYPES, 12),
        "table": "orders",
        "ts": 1_700_000_000_000 + number,
        "type": operation,
    } | members


def raw(value: dict[str, Any], *, reverse: bool = False) -> bytes:
    items = dict(reversed(value.items())) if reverse else value
    return json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()


def usual(count: int, *, reverse: bool = False) -> list[bytes]:
    kinds = ("INSERT", "UPDATE", "DELETE")
    return [raw(message(number, kinds[number % 3]), reverse=reverse) for number in range(count)]


def left(values: list[bytes | None], known: KnownFrames | None = None, **options: Any) -> list[bytes | None]:
    """The messages that are left to other paths."""
    messages = Messages(values, np.arange(len(values)))
    rest = add_framed(messages, DecodeOptions(**options), known or KnownFrames(), 1, DecodeResult())
    return list(rest.values)


def shown(values: list[bytes | None], images: Any, bulk_rows: int) -> Any:
    options = DecodeOptions(images, frozenset({"id"}), bulk_rows=bulk_rows)
    decoded = decode("canal-json", Messages(values, np.arange(len(values))), options)
    bad = sorted((record.pos, record.reason_class, record.message, record.raw) for record in decoded.bad)
    times = {
        (int(position), int(sub)): int(time)
        for batch in decoded.batches
        for position, sub, time in zip(batch.positions, batch.subs, batch.event_times, strict=True)
    }
    return placed(decoded), times, bad, decoded.skipped, decoded.repaired


def compare(values: list[bytes | None]) -> None:
    for images in ("key-changes", "all"):
        assert shown(values, images, 1) == shown(values, images, 10**9)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_usual_messages_of_any_operation_are_not_left_to_a_parser(*, reverse: bool) -> None:
    values = usual(2 * BLOCK + 100, reverse=reverse)
    assert left([*values]) == []
    compare([*values[:300]])


def test_many_tables_and_declarations_are_found_at_once() -> None:
    values = [
        raw(
            message(
                number,
                ("INSERT", "UPDATE")[number % 2],
                table=f"t{number // 2 % 20}",
                pkNames=[["id"], None][number // 40 % 2],
            )
        )
        for number in range(400)
    ]
    assert left([*values]) == []
    compare([*values])


def test_numbers_with_other_digits_are_another_frame() -> None:
    values = [raw(message(number, id=10 ** (number % 4))) for number in range(100)]
    assert left([*values]) == []
    compare([*values])


def test_numbers_that_grow_do_not_end_the_use_of_frames() -> None:
    """Each message of canal has the next `id`: the first have few digits, and are few."""
    known = KnownFrames()
    for begin in (0, 9_950, 99_500):
        values = [
            raw(message(number, ("INSERT", "UPDATE")[number % 2], id=number)) for number in range(begin, begin + 200)
        ]
        few = [value for value in values if json.loads(value)["id"] < 10]
        assert set(left([*values], known)) <= set(few)


def test_the_frames_that_most_messages_had_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first messages have fewer digits, so their frames are learned last."""
    known = KnownFrames()
    left([raw(message(number, ("INSERT", "UPDATE")[number % 2], id=number)) for number in range(700)], known)
    monkeypatch.setattr(framed_messages, "MOST_ALIKE", 0)
    values = [raw(message(number, ("INSERT", "UPDATE")[number % 2], id=number)) for number in range(700, 900)]
    assert left([*values], known) == []


def test_a_declaration_that_changes_has_frames_again() -> None:
    known = KnownFrames()
    for width in range(9, 29):
        types = TYPES | {"name": f"varchar({width})"}
        assert left([raw(message(number, mysqlType=types)) for number in range(50)], known) == []


@pytest.mark.parametrize(
    "odd",
    [
        message(7, "UPDATE", old=[None]),
        message(7, "UPDATE", old=[]),
        message(7, "UPDATE", old=[{"id": "6"}]),
        message(7, "UPDATE", old=[{"id": 6}]),
        message(7, "UPDATE", old=[{"name": '],"pkNames":'}]),
        message(7, data=[{"id": "1"}, {"id": "2"}]),
        message(7, data=[{"id": '","database":"shop'}]),
        message(7, data=[{"id": "7", "kind": "9"}]),
        message(7, data=[{"id": "7", "name": "\u0001"}]),
        message(7, ts=0),
        message(7, ts=-5),
        message(7, isDdl=True),
        message(7, "ALTER"),
        message(7, "UPDATE", old=None),
        message(7, database=None),
        message(7, mysqlType=None),
        message(7, mysqlType={"id": 5}),
    ],
)
def test_an_odd_message_among_usual_ones_means_what_it_means_alone(odd: dict[str, Any]) -> None:
    compare([*usual(30), raw(odd), None, b"", *usual(30)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("operation", ["INSERT", "UPDATE"])
def test_damage_to_any_byte_is_decided_by_the_record_path(operation: str, *, reverse: bool) -> None:
    random = Random(operation)
    good = raw(message(6, operation), reverse=reverse)
    for place in range(random.randrange(3), len(good), 3):
        byte = bytes([random.choice(REPLACED)])
        changed = random.choice([good[:place] + byte + good[place + 1 :], good[:place] + good[place + 1 :]])
        values: list[bytes | None] = [good, good, changed, good]
        assert shown(values, "key-changes", 1) == shown(values, "key-changes", 10**9), changed


def test_rows_that_only_together_look_like_json_are_none() -> None:
    first, second = raw(message(1)), raw(message(2))
    split = [
        first.replace(b'"}],"database', b'"}],[{"id":"8"}],"database'),
        second.replace(b'"}],"database', b'","database'),
    ]
    compare([*usual(20), *split])


def test_messages_of_which_each_has_its_own_frame_are_soon_not_compared_any_more() -> None:
    known, tried = KnownFrames(), 0
    for _ in range(20):
        if known.is_tried():
            tried += 1
            known.note(0.0)
    assert tried == 5


def test_few_frames_are_learned_from_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed_messages, "MOST_LEARNED", 10)
    values = [raw(message(number, gtid=f"0-1-{100 + number}")) for number in range(50)]
    # The frame of the first message shows how frames are looked up; ten more are learned from others.
    assert len(left([*values])) == 39


def test_frames_of_few_messages_are_not_compared() -> None:
    values = [raw(message(number, table=f"t{number % 20}")) for number in range(300)]
    messages = Messages(values, np.arange(300))
    assert add_framed(messages, DecodeOptions(), KnownFrames(), 15, DecodeResult()) is not messages
    assert add_framed(messages, DecodeOptions(), KnownFrames(), 16, DecodeResult()) is messages


def tables_by_turns(monkeypatch: pytest.MonkeyPatch) -> Messages:
    """There are 30 messages of each of 20 tables. A block of the usual size has five of each."""
    monkeypatch.setattr(framed_rows, "BLOCK", 100)
    return Messages([raw(message(number, table=f"t{number % 20}")) for number in range(600)], np.arange(600))


def test_blocks_are_larger_where_tables_have_few_messages_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, known = tables_by_turns(monkeypatch), KnownFrames()
    assert len(add_framed(messages, DecodeOptions(), known, 15, DecodeResult())) == 0
    assert known.kinds == 20
    compare([*messages.values])


def test_larger_blocks_have_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = tables_by_turns(monkeypatch)
    monkeypatch.setattr(framed_rows, "MOST_BLOCK_BYTES", sum(len(value or b"") for value in messages.values[:200]))
    assert add_framed(messages, DecodeOptions(), KnownFrames(), 15, DecodeResult()) is messages


def test_messages_that_are_like_no_others_need_no_larger_blocks() -> None:
    known = KnownFrames()
    left([raw(message(number, gtid=f"0-1-{100 + number}")) for number in range(50)], known)
    assert known.kinds == 0


def test_groups_of_few_messages_are_left_to_the_other_paths() -> None:
    messages = Messages(usual(240), np.arange(240))
    assert add_framed(messages, DecodeOptions(), KnownFrames(), 241, DecodeResult()) is messages
    assert len(add_framed(messages, DecodeOptions(), KnownFrames(), 240, DecodeResult())) == 0
