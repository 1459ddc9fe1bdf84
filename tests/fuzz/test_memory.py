"""Decoders need at most ten times the bytes of a large input, and the measurement notices more."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats import FORMATS, decode
from penstock.formats.change import DecodeOptions
from tests.fuzz import test_messages, test_mongodb, test_postgres
from tests.fuzz.mutations import MEMORY_FLOOR, MemoryExceeded, held, in_one_of_eight, within_memory
from tests.unit.formats.support import messages

# Besides ten times the input: what allocators keep.
FLOOR = 16 << 20
MORE = 8 << 20


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: b"x" * (MEMORY_FLOOR + MORE),
        lambda: np.ones(MEMORY_FLOOR + MORE, np.int8),
        lambda: pa.array(np.ones(MEMORY_FLOOR + MORE, np.int8)).cast(pa.int16()),
    ],
    ids=["python", "numpy", "arrow"],
)
def test_more_memory_than_the_limit_is_noticed(allocate: Callable[[], object]) -> None:
    within_memory(allocate, "", size=MEMORY_FLOOR)
    with pytest.raises(MemoryExceeded, match="MiB for 100 bytes"):
        within_memory(allocate, "", size=100)
    with pytest.raises(MemoryExceeded):
        within_memory(lambda: (allocate(), 1 / 0), "", size=100)


def test_one_of_eight_runs_is_measured() -> None:
    assert [in_one_of_eight() for _ in range(16)].count(True) == 2
    ended = []
    for _ in range(8):
        try:
            ended.append(held(lambda: b"x" * (MEMORY_FLOOR + MORE), "", size=1))
        except MemoryExceeded:
            ended.append("exceeded")
    assert sorted(ended) == ["exceeded", *["well"] * 7]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*FORMATS.built_in} - {"debezium-avro"}))
def test_many_messages_need_at_most_ten_times_their_bytes(name: str) -> None:
    found = [json.dumps(document).encode() for document in test_messages.samples(name)]
    values = found * (1 + (1 << 20) // sum(map(len, found)))
    given = messages(*values)
    decode(name, messages(*found), DecodeOptions())
    within_memory(lambda: decode(name, given, DecodeOptions()), name, sum(map(len, values)), FLOOR)


@pytest.mark.parametrize("binary", [False, True])
def test_a_large_transaction_of_postgres_needs_at_most_ten_times_its_bytes(binary: bool) -> None:
    few = test_postgres.log_messages(binary=binary)
    many = [*few[:2], *few[2:-1] * 400, few[-1]]
    test_postgres.decode(few)
    within_memory(lambda: test_postgres.decode(many), "", sum(map(len, many)), FLOOR)


@pytest.mark.parametrize("what", ["events", "documents"])
def test_a_large_reply_of_mongodb_needs_at_most_ten_times_its_bytes(what: str) -> None:
    documents = [{"_id": number, **test_mongodb.EVERY_TYPE} for number in range(900)]
    raw = test_mongodb.reply(test_mongodb.EVENTS * 300 if what == "events" else documents)
    few, read = test_mongodb.REPLIES[what]
    read(few)
    within_memory(lambda: read(raw), "", len(raw), FLOOR)
