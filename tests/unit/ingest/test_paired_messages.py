"""Messages that lead are in one chunk with the next one, at the ends of chunks and of ranges, and none is lost."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from penstock.formats.change import Messages
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.paired_messages import whole_pairs

PLAIN, LEADS = b"plain", b"leads"


def leads(value: bytes | None) -> bool:
    return value == LEADS


def fetch(values: list[bytes | None], first: int) -> FetchedMessages:
    count = len(values)
    return FetchedMessages(
        "t",
        0,
        Messages(
            values, np.arange(first, first + count), keys=[b"k"] * count, timestamps=np.arange(first, first + count)
        ),
        sum(map(len, filter(None, values))),
        headers=[[("n", str(first + place).encode())] for place in range(count)],
        timestamp_types=[1] * count,
        ids=[f"id{first + place}" for place in range(count)],
    )


def offsets(chunk: FetchedMessages) -> list[int]:
    found = chunk.messages.offsets.tolist()
    # The parts of a message stay together.
    assert chunk.messages.timestamps is not None
    assert chunk.messages.timestamps.tolist() == found
    assert chunk.ids is not None
    assert [chunk.ids[number] for number in range(len(chunk.ids))] == [f"id{offset}" for offset in found]
    assert chunk.headers is not None
    assert [header[0][1] for header in chunk.headers if header] == [str(offset).encode() for offset in found]
    assert chunk.size == sum(map(len, filter(None, chunk.messages.values)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_every_message_is_read_once_and_together_with_the_next_one_if_it_leads(seed: int) -> None:
    dice = random.Random(seed)
    values = [dice.choice([LEADS, LEADS, PLAIN, None]) for _ in range(dice.randint(1, 25))]
    edges = sorted({0, len(values), *(dice.randint(0, len(values)) for _ in range(dice.randint(0, 4)))})
    read: list[int] = []
    for begin, end in itertools.pairwise(edges):
        cuts = sorted({begin, end, *(dice.randint(begin, end) for _ in range(3))})
        fetches = [fetch(values[first:last], first) for first, last in itertools.pairwise(cuts)]
        before = fetch(values[begin - 1 : begin], begin - 1) if begin else None
        for chunk in whole_pairs(
            fetches,
            leads,
            lambda before=before: before,
            lambda last, end=end: last.messages.offsets[-1] == end - 1 and end < len(values),
        ):
            found = offsets(chunk)
            assert found
            # A message that leads another one that leads has no second message.
            last = found[-1]
            assert not leads(values[last]) or last == len(values) - 1 or leads(values[last + 1])
            read += found
    assert read == list(range(len(values)))


def test_a_message_that_the_next_range_does_not_find_is_not_left_to_it() -> None:
    (chunk,) = whole_pairs([fetch([PLAIN], 0), fetch([LEADS], 1)][1:], leads, lambda: None, lambda last: False)
    assert offsets(chunk) == [1]
    assert list(whole_pairs([fetch([LEADS], 1)], leads, lambda: None, lambda last: True)) == []


@pytest.mark.parametrize(("first", "offset", "warned"), [(b"follows", 3, 1), (b"follows", 0, 0), (PLAIN, 3, 0)])
def test_a_second_message_whose_first_is_deleted_is_reported_once(
    caplog: pytest.LogCaptureFixture, first: bytes, offset: int, warned: int
) -> None:
    fetches = [fetch([first], offset), fetch([b"follows"], offset + 1)]
    found = list(whole_pairs(fetches, leads, lambda: None, lambda _: True, lambda value: value == b"follows"))
    assert list(map(offsets, found)) == [[offset], [offset + 1]]
    assert caplog.text.count("event=old_row_unknown") == warned


def test_a_message_before_the_range_that_does_not_lead_is_not_read_again() -> None:
    (chunk,) = whole_pairs([fetch([PLAIN], 1)], leads, lambda: fetch([PLAIN], 0), lambda last: True)
    assert offsets(chunk) == [1]
