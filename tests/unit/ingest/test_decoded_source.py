from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock.errors import SourceError
from penstock.formats.change import DecodeOptions, Messages
from penstock.ingest import decoded_source as decoding
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.fetched_messages import FetchedMessages, joined
from penstock.ingest.source import Limit, Offsets, Range


def fetched(offsets: range, tables: int) -> FetchedMessages:
    values = [
        json.dumps(
            {
                "type": "INSERT",
                "database": "shop",
                "table": f"t{number % tables}",
                "mysqlType": {"id": "int"},
                "data": [{"id": str(number)}],
            }
        ).encode()
        for number in offsets
    ]
    count = len(values)
    messages = Messages(values, np.array(offsets, np.int64), [b"k"] * count, np.arange(count))
    size = sum(map(len, values))
    return FetchedMessages("topic", 0, messages, size, headers=[None] * count, timestamp_types=[0] * count)


@dataclass
class Chunks:
    """A source that hands out chunks as they were given."""

    given: Sequence[FetchedMessages]

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        yield from self.given

    def initial_offsets(self) -> Offsets:
        return {}

    def available(self) -> Offsets:
        return {}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return start

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        return []

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return {}

    def mirror(self, offsets: Offsets) -> None:
        return

    def close(self) -> None:
        return


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_rows_together", {})


def sizes(chunks: Sequence[FetchedMessages]) -> list[int]:
    source = DecodedSource(Chunks(chunks), "canal-json")
    return [chunk.messages for chunk in source.chunks(Range(0, "topic/0", 0, 1, 1), DecodeOptions())]


def test_joined_chunks_are_the_records_of_all_in_their_order() -> None:
    whole = fetched(range(7), 1)
    found = joined([fetched(range(3), 1), fetched(range(3, 7), 1)])
    assert found.messages.values == whole.messages.values
    assert found.messages.offsets.tolist() == list(range(7))
    assert found.messages.timestamps is not None
    assert (len(found.messages.keys or ()), len(found.messages.timestamps)) == (7, 7)
    assert (found.size, len(found.headers or ()), len(found.timestamp_types or ())) == (whole.size, 7, 7)
    assert joined([whole]) is whole


def test_chunks_with_few_rows_per_table_are_joined() -> None:
    chunks = [fetched(range(100 * number, 100 * number + 100), 50) for number in range(5)]
    assert sizes(chunks) == [100, 400]  # what a topic holds is known after its first chunk
    assert sizes(chunks) == [500]


def test_chunks_with_many_rows_per_table_are_kept() -> None:
    chunks = [fetched(range(400 * number, 400 * number + 400), 2) for number in range(3)]
    assert sizes(chunks) == sizes(chunks) == [400] * 3


def test_chunks_are_joined_up_to_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [fetched(range(100 * number, 100 * number + 100), 50) for number in range(6)]
    sizes(chunks)
    monkeypatch.setattr(decoding, "WIDE_ROWS", 200)
    assert sizes(chunks) == [200] * 3
    monkeypatch.setattr(decoding, "WIDE_BYTES", 1)
    assert sizes(chunks) == [100] * 6


def test_joined_chunks_have_times_if_all_of_them_have() -> None:
    times = np.array([7], np.int64)
    some = [Messages([b"{}"], np.array([offset], np.int64), timestamps=times) for offset in (0, 1)]
    chunks = [FetchedMessages("orders", 0, messages, 2) for messages in (*some, replace(some[0], timestamps=None))]
    assert joined(chunks[:2]).messages.timestamps.tolist() == [7, 7]  # type: ignore[union-attr]
    assert joined(chunks).messages.timestamps is None


class Unreadable(Chunks):
    """A source whose messages before a range cannot be read."""

    def last_before(self, range_: Range) -> FetchedMessages | None:
        raise SourceError("no access")

    def is_shown_next(self, range_: Range, offset: int) -> bool:
        return False


def test_an_error_in_the_message_before_a_range_is_one_of_reading_the_range() -> None:
    """The reader of a range reports errors that come with its chunks, and so it must be with this one."""
    chunks = DecodedSource(Unreadable([]), "aliyun-json").chunks(Range(0, "topic/0", 5, 6, 1), DecodeOptions())
    with pytest.raises(SourceError, match="no access"):
        next(chunks)
