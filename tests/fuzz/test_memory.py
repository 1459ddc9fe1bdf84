"""Decoders need at most ten times the bytes of a large input, and the measurement notices more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.formats import FORMATS, decode
from penstock.formats.change import DecodeOptions
from tests.fuzz import test_messages, test_mongodb, test_postgres
from tests.fuzz.mutations import within_memory
from tests.unit.formats.support import messages

ROOT = Path(__file__).resolve().parents[2]
# Besides ten times the input: what allocators keep.
FLOOR = 16 << 20
# In a process of their own: in one that has run for an hour, the system takes other pages back in the meantime.
NOTICED = """
import sys
import numpy as np
import pyarrow as pa
from tests.fuzz.mutations import MEMORY_FLOOR, MemoryExceeded, held, in_one_of_eight, within_memory

SIZE = 2 * MEMORY_FLOOR
ALLOCATE = {
    "python": lambda: b"x" * SIZE,
    "numpy": lambda: np.ones(SIZE, np.int8),
    "arrow": lambda: pa.array(np.ones(SIZE, np.int8)).cast(pa.int16()),
}

def is_noticed(run):
    try:
        run()
    except MemoryExceeded as error:
        return "MiB for 100 bytes" in str(error)
    return False

for name, allocate in ALLOCATE.items():
    within_memory(allocate, "", size=MEMORY_FLOOR)
    print(name, is_noticed(lambda: within_memory(allocate, "", size=100)))
    print(name, is_noticed(lambda: within_memory(lambda: (allocate(), 1 / 0), "", size=100)))
assert [in_one_of_eight() for _ in range(16)].count(True) == 2
print([is_noticed(lambda: held(ALLOCATE["python"], "", size=100)) for _ in range(8)].count(True))
"""


def test_more_memory_than_the_limit_is_noticed_in_one_of_eight_runs() -> None:
    done = subprocess.run([sys.executable, "-c", NOTICED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{name} True" for name in ("python", "numpy", "arrow") for _ in "12"] + [
        "1"
    ], done.stderr


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
