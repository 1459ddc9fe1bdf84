"""Elements of many documents: groups by type and name, positions, and lengths of all types."""

from __future__ import annotations

import re
from collections import Counter

import bson
import numpy as np
import pytest

from penstock.errors import SourceError
from penstock.ingest.mongodb.bson.documents import columns_and_keys
from penstock.ingest.mongodb.bson.elements import Block, segments
from penstock.ingest.mongodb.bson.single_document import documents_at, members, text_at
from penstock.ingest.mongodb.bson.value_types import INT32, STRING


def laid_out(*documents: dict[str, object]) -> tuple[Block, np.ndarray]:
    """Return the documents in one block as a reply contains them, and where they begin."""
    raw = bson.encode({"batch": list(documents)})
    return Block(raw), documents_at(raw, members(raw)["batch"][1])


def test_documents_of_an_array_are_found_beyond_ten_and_a_hundred() -> None:
    block, at = laid_out(*({"n": number} for number in range(1011)))
    assert len(at) == 1011
    assert [
        bson.decode(block.raw[begin:][: int.from_bytes(block.raw[begin : begin + 4], "little")])["n"] for begin in at
    ] == [*range(1011)]


def test_equal_documents_are_one_segment_per_name() -> None:
    block, at = laid_out({"a": 1, "b": "x"}, {"a": 2, "b": "yz"})
    first, second = segments(block, at)
    assert (first.kind, first.name, first.lanes.tolist()) == (INT32, b"a", [0, 1])
    assert (second.kind, second.name, second.length.tolist()) == (STRING, b"b", [6, 7])
    assert text_at(block.raw, int(second.start[1])) == "yz"


def test_names_and_types_that_differ_are_segments_of_their_own() -> None:
    block, at = laid_out({"a": 1}, {"a": "x"}, {"b": 1, "a": 5}, {})
    found = {(segment.step, segment.kind, segment.name): segment.lanes.tolist() for segment in segments(block, at)}
    assert found == {
        (0, INT32, b"a"): [0],
        (0, STRING, b"a"): [1],
        (0, INT32, b"b"): [2],
        (1, INT32, b"a"): [2],
    }


def test_many_names_at_one_step_are_all_found() -> None:
    block, at = laid_out(*({f"name {number % 50}": number} for number in range(200)))
    found = segments(block, at)
    assert len(found) == 50
    assert sorted(lane for segment in found for lane in segment.lanes.tolist()) == [*range(200)]
    assert all(segment.name == f"name {segment.lanes[0] % 50}".encode() for segment in found)


def test_names_that_share_their_first_eight_bytes_are_distinguished() -> None:
    block, at = laid_out({"customer_name": 1}, {"customer_mail": 2}, {"customer": 3})
    assert [segment.name for segment in segments(block, at)] == [b"customer_name", b"customer_mail", b"customer"]


def test_values_of_every_type_have_their_length() -> None:
    document = {
        "re": re.compile("a.*b", re.IGNORECASE),
        "code": bson.Code("f()", {"x": 1}),
        "bin": b"\0\1",
        "ref": bson.DBRef("t", 1),
        "dec": bson.Decimal128("1.5"),
        "min": bson.MinKey(),
        "last": "end",
    }
    block, at = laid_out(document)
    assert [segment.name.decode() for segment in segments(block, at)] == list(document)


def test_unknown_types_are_an_error() -> None:
    raw = bytearray(bson.encode({"a": 1}))
    raw[4] = 0x2A
    with pytest.raises(SourceError, match="unknown BSON type"):
        segments(Block(bytes(raw)), np.array([0]))


SIZE = (1000).to_bytes(4, "little")
DAMAGES = [
    (b"\x02a\0\x02\0\0\0x\0", b"\x02a\0" + SIZE + b"x\0"),  # a text that is longer than its document
    (b"\x02a\0\x02\0\0\0x\0", b"\x02a\0\0\0\0\0x\0"),  # a text without room for its zero byte
    (b"\x03d\0\x0c\0\0\0", b"\x03d\0\0\0\0\0"),  # a document of no bytes
    (b"\x03d\0\x0c\0\0\0", b"\x03d\0\x0b\0\0\0"),  # a document that ends within its last value
    (b"\x10b\0\x01\0\0\0\0", b"\x10b\0\x01\0\0\0\1"),  # a document without an end
]


@pytest.mark.parametrize(("whole", "damage"), DAMAGES)
def test_damaged_documents_are_errors(whole: bytes, damage: bytes) -> None:
    raw = bson.encode({"batch": [{"a": "x", "d": {"b": 1}}] * 2})
    assert raw.count(whole) == 2
    with pytest.raises(SourceError, match="damaged document"):
        columns_and_keys(Block(raw.replace(whole, damage, 1)), documents_at(raw, members(raw)["batch"][1]), Counter())


@pytest.mark.parametrize("size", [0, -1, 4])
def test_an_array_of_documents_without_a_size_is_an_error(size: int) -> None:
    raw = bson.encode({"batch": [{"a": 1}] * 2})
    broken = raw.replace(b"0\0\x0c\0\0\0", b"0\0" + size.to_bytes(4, "little", signed=True))
    with pytest.raises(SourceError, match="damaged document"):
        documents_at(broken, members(raw)["batch"][1])
