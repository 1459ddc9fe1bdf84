"""Packets in a buffer that fills up: the same ones, however it is filled and whatever payloads look like."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.ingest.database.buffers import SPARE
from penstock.ingest.mysql.server.packet_heads import FULL_PACKET, PacketHeads, text_heads

TEXT = b"\x0312\x03abc\xfb\x131996-10-06 07:08:09 and so on"


def sent(payloads: list[bytes], number: int = 0) -> bytes:
    """The packets of these payloads; a payload of the full length continues in the next packet."""
    parts = []
    for payload in payloads:
        for begin in range(0, len(payload) + 1, FULL_PACKET):
            piece = payload[begin : begin + FULL_PACKET]
            parts.append(len(piece).to_bytes(3, "little") + bytes([number % 256]) + piece)
            number += 1
    return b"".join(parts)


def found(data: bytes, ends: list[int], *, of_texts: bool) -> tuple[list[bytes], PacketHeads]:
    """The payloads that are found when the buffer is filled up to each of these places in turn."""
    raw = np.empty(len(data) + SPARE, np.uint8)
    raw[:] = 0
    heads = PacketHeads(of_texts=of_texts)
    heads.start_over(raw.data, 0)
    for before, end in zip([0, *ends], [*ends, len(data)], strict=True):
        raw[before:end] = np.frombuffer(data[before:end], np.uint8)
        heads.go_on(raw.data, end)
    bounds = list(zip(*(places.tolist() for places in heads.bounds()), strict=True))
    assert heads.count == len(bounds)
    if bounds:
        assert (heads.bounds_of_first, heads.bounds_of_last) == (bounds[0], bounds[-1])
    return [raw[start:end].tobytes() for start, end in bounds], heads


def payload(dice: random.Random) -> bytes:
    kind = dice.random()
    if kind < 0.9:
        return TEXT * dice.randrange(1, 12)
    if kind < 0.93:
        return b""
    if kind < 0.95:
        return dice.randbytes(dice.choice([3, 255, 256, 8_191, 8_192, 65_535, 65_536, 70_000]))
    # What looks like packets: with the numbers of real ones, zeros, and lengths that lead beyond the payload.
    inner = sent([TEXT * dice.randrange(3) for _ in range(dice.randrange(1, 9))], dice.randrange(256))
    return dice.choice([inner, inner[:-3], bytes(dice.randrange(40)), b"\3\0\0\1" * dice.randrange(1, 9)])


@pytest.mark.parametrize("of_texts", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_packets_are_found_in_pieces_of_any_size(seed: int, of_texts: bool) -> None:
    dice = random.Random(seed)
    payloads = [payload(dice) for _ in range(dice.choice([3, 100, 2_000]))]
    data = sent(payloads, dice.randrange(256))
    ends = sorted(dice.randrange(len(data)) for _ in range(dice.choice([0, 1, 5, 50])))
    assert found(data, ends, of_texts=of_texts)[0] == payloads


@pytest.mark.parametrize("of_texts", [True, False])
def test_payloads_of_several_packets_are_joined(of_texts: bool) -> None:
    longest = [b"a" * FULL_PACKET, b"b" * (FULL_PACKET - 1), b"c" * (2 * FULL_PACKET + 5)]
    payloads = [*[TEXT] * 500, longest[0], TEXT, *longest[1:], TEXT]
    data = sent(payloads)
    assert found(data, [1, 30_000, FULL_PACKET, FULL_PACKET + 30_000], of_texts=of_texts)[0] == payloads


@pytest.mark.parametrize("size", [1, 7, 8, 150])
def test_packets_of_texts_are_found_by_a_search(size: int) -> None:
    """Up to the last one, after which no packet confirms its end."""
    data = sent([TEXT * size] * 600, number=7)
    heads, at = text_heads(np.frombuffer(data + bytes(SPARE), np.uint8), 0, len(data))
    each = len(data) // 600
    assert heads.tolist() == list(range(0, 599 * each, each))
    assert at == 599 * each


def test_a_search_ends_before_a_long_text() -> None:
    data = sent([TEXT] * 10 + [b"x" * 8_192] + [TEXT] * 10)
    heads, at = text_heads(np.frombuffer(data + bytes(SPARE), np.uint8), 0, len(data))
    assert (len(heads), at) == (10, 10 * (len(TEXT) + 4))


def test_an_incomplete_packet_is_found_when_it_is_complete() -> None:
    data = sent([TEXT, TEXT])
    for end in range(len(data)):
        raw = np.frombuffer(data[:end] + bytes(SPARE), np.uint8)
        heads = PacketHeads(of_texts=False)
        heads.start_over(raw.data, end)
        assert heads.count == end // (len(TEXT) + 4)
    assert found(data, list(range(1, len(data))), of_texts=False)[0] == [TEXT, TEXT]
