from __future__ import annotations

import itertools

import pytest
from _pulsar import MessageId

from penstock.errors import SourceError
from penstock.ingest.pulsar.position import START, Position, position_and_size


def test_positions_are_ordered_by_ledger_entry_and_index() -> None:
    rising = [
        START,
        Position.before(3, 0),
        Position(3, 0, 0),
        Position(3, 0, 1),
        Position(3, 0).after,
        Position(3, 1),
        Position(12, 0),
    ]
    assert sorted(rising, key=lambda position: position.place) == rising
    for smaller, larger in itertools.pairwise(rising):
        assert smaller < larger
        assert larger > smaller
        assert not larger <= smaller


@pytest.mark.parametrize("text", ["12:5:9", "12:5:-1", "12:5:before", "-1:-1:-1", "12:9:-1/12:4"])
def test_the_text_of_a_position_is_read_again(text: str) -> None:
    assert str(Position.of(text)) == text


@pytest.mark.parametrize("text", ["", "12", "12:5", "12:5:x", "12:5:9/4", " 12:5:9"])
def test_a_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="no position"):
        Position.of(text)


def test_only_a_message_that_was_read_has_to_be_there() -> None:
    assert Position(3, 0).is_message
    assert Position(3, 0, 4).is_message
    assert not START.is_message
    assert not Position.before(3, 0).is_message


def test_a_message_in_chunks_equals_the_id_of_its_last_chunk() -> None:
    whole = Position(12, 9, -1, (12, 4))
    assert whole == Position(12, 9)
    assert not whole > Position(12, 9)
    assert whole.start_id(-1).entry_id() == 4


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position(12, 5, 9), (12, 5, 9)),
        (Position(12, 5), (12, 5, -1)),
        (Position.before(12, 5), (12, 5, -1)),
        (START, (-1, -1, -1)),
    ],
)
def test_a_reader_begins_at_the_message_of_the_position(position: Position, expected: tuple[int, int, int]) -> None:
    found = position.start_id(2)
    assert (found.ledger_id(), found.entry_id(), found.batch_index()) == expected


def test_an_id_of_the_client_is_a_position() -> None:
    assert position_and_size(MessageId(-1, 1 << 40, 70_000, 3)) == (Position(1 << 40, 70_000, 3), 0)
    assert position_and_size(MessageId(4, 7, 0, -1)) == (Position(7, 0), 0)
    assert position_and_size(MessageId.earliest)[0] == START


def test_the_size_of_a_batch_and_the_first_chunk_are_in_the_serialized_id() -> None:
    class Serialized:
        def __init__(self, text: str) -> None:
            self.serialize = lambda: bytes.fromhex(text)

    # As a broker of version 3.0 sent them.
    batched, size = position_and_size(Serialized("080310002000309002"))
    assert (batched, size) == (Position(3, 0, 0), 272)
    chunked, size = position_and_size(Serialized("08a76010043a0508a7601001"))
    assert (str(chunked), size) == ("12327:4:-1/12327:1", 0)
