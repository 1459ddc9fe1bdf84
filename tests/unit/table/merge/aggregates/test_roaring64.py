"""Bitmaps of 64-bit numbers in the bytes that Java writes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.table.merge.aggregates.roaring64 import decode, encode, union

ONE_CONTAINER = "0101000000000000000400000000000000000000000000000000"
TAIL_OF_ONE = "0100000000000000" + "00000000" * 2
# What RoaringBitmap64 of Paimon 1.3.1 made of these numbers.
JAVA: dict[str, tuple[list[int], str]] = {
    "nothing": ([], "00"),
    "one array": ([1, 5], f"{ONE_CONTAINER}0001000000fe01000000010202000000010005{'00'}{TAIL_OF_ONE}"),
    "two runs": (
        [*range(10, 3000), *range(5000, 6000)],
        f"{ONE_CONTAINER}0001000000fe0100000001" + f"00960f000002000a00ad0b8813e703{TAIL_OF_ONE}",
    ),
    "two branches after a prefix": (
        [1, 5, 2**40 + 3],
        "010200000000000000000200020000000001000400000000000000000000000000000000000400000000000100000001000000000000000100"
        "0000fe0200000001020200000001000500010201000000030002000000000000000000000001000000",
    ),
    "five branches": (
        [x * 3 << 16 for x in range(5)],
        "0105000000000000000105000500000000000000000c09060300000000000000000004000000000000000000000000000000000004000000"
        "00000000000301000000000000000400000000000000000602000000000000000400000000000000000903000000000000000400000000"
        "000000000c040000000000000001000000fe0600000001020100000000000102010000000000010201000000000001020100000000000102"
        "010000000000" + "0005000000000000000000000004000000",
    ),
    "a negative number": (
        [3, 2**64 - 1],
        "010200000000000000000200000000ff0004000000000000000000010000000000000004000000ffffffffffff00000000000000000100"
        "0000fe02000000010201000000ffff010201000000030002000000000000000000000001000000",
    ),
}


def numbers_in(data: bytes) -> list[int]:
    found = decode(data)
    return [int.from_bytes(high, "big") << 16 | int(low) for high in sorted(found) for low in found[high]]


def bitmap_of(numbers: list[int]) -> bytes:
    containers: dict[bytes, Any] = {}
    for number in sorted(set(numbers)):
        containers.setdefault((number >> 16).to_bytes(6, "big"), []).append(number & 0xFFFF)
    return encode({high: np.array(low, np.uint16) for high, low in containers.items()})


@pytest.mark.parametrize("name", JAVA)
def test_bytes_of_java_are_read(name: str) -> None:
    numbers, data = JAVA[name]
    assert numbers_in(bytes.fromhex(data)) == sorted(numbers)


@pytest.mark.parametrize("name", ["nothing", "one array", "two runs"])
def test_written_bytes_equal_those_of_java(name: str) -> None:
    numbers, data = JAVA[name]
    assert bitmap_of(numbers).hex() == data


@pytest.mark.parametrize("branches", [1, 2, 4, 5, 16, 17, 48, 49, 256])
def test_every_node_and_container_survives_a_round_trip(branches: int) -> None:
    random = Random(branches)
    numbers = [random.choice([x << 16, x << 40, x << 20]) + random.randrange(1 << 16) for x in range(branches)]
    numbers += [*range(0, 30_000, 3), *range(2**50, 2**50 + 9000)]
    assert numbers_in(bitmap_of(numbers)) == sorted(set(numbers))


def test_union_contains_the_numbers_of_both() -> None:
    left, right = [1, 5, 2**40], [5, 6, 2**40 + 1, 2**63]
    assert numbers_in(union([bitmap_of(left), bitmap_of(right)])) == sorted({*left, *right})


@pytest.mark.parametrize("data", [b"", b"\1", b"\1" + b"\0" * 8 + b"\7" * 20, bytes.fromhex(JAVA["one array"][1])[:40]])
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a roaring bitmap"):
        decode(data)
