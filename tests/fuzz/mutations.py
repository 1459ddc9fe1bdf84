"""Seeded changes of bytes and of JSON documents, and the rule that every decoder is held to."""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from tests.fuzz.kept import kept_seeds

SECONDS = 5.0  # of CPU: the machine may have other work
# Memory of a decoder: times the bytes of its input. Below the floor are what every call needs and first calls import.
MOST_TIMES = 10
MEMORY_FLOOR = 64 << 20
_calls = count()
_present = {"seed": 0}
_PEAK = Path("/proc/self/clear_refs")  # 5 sets the peak to what is in use
_BYTES = (0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 10**40, 0.5, 1e308, "", "x", "NaN", "\x00",
    "a\x00b", "😀", "../../x", "9" * 50, "bit(99)", "decimal(99,99)", "geometryxyz(3)", "varchar(0)", "((((", [], {},
    [None], [[]], {"": ""}, ["x"] * 3, {"a": {"b": {"c": None}}},
)  # fmt: skip


def seeds(request: pytest.FixtureRequest, quick: int, night: int) -> Iterator[random.Random]:
    """Generators of chance: the same ones in every quick run, other ones each night.

    PENSTOCK_FUZZ_SECONDS=N makes a test at night last so long, instead of a fixed number of inputs. With
    PENSTOCK_FUZZ_LOG the number of inputs is added to that file, as a line of JSON; while an input is tried, its seed
    is in a second file `.now`, for a process that is aborted. PENSTOCK_FUZZ_SEED=N repeats the input of a failure.
    """
    alone = os.environ.get("PENSTOCK_FUZZ_SEED")
    if alone is not None:
        yield _generator(int(alone))
        return
    at_night = bool(request.config.getoption("--night"))
    base = int(time.time()) * 1_000_003 if at_night else 0
    seconds, log = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", "0")), os.environ.get("PENSTOCK_FUZZ_LOG")
    deadline = time.monotonic() + seconds if at_night and seconds else None
    count = 0
    try:
        yield from map(_generator, kept_seeds(request.node.nodeid))
        while (count < (night if at_night else quick)) if deadline is None else (time.monotonic() < deadline):
            if log:
                Path(f"{log}.now").write_text(f"{request.node.nodeid} seed {base + count}", encoding="utf-8")
            yield _generator(base + count)
            count += 1
    finally:
        if log:
            Path(f"{log}.now").unlink(missing_ok=True)
            with Path(log).open("a") as file:
                file.write(json.dumps({"test": request.node.nodeid, "first": base, "inputs": count}) + "\n")


def _generator(seed: int) -> random.Random:
    """Return the chance of one input, and note its seed for the error of a failure."""
    _present["seed"] = seed
    return random.Random(seed)  # tests want chance that can be repeated


def with_seed(failure: str) -> str:
    """Return the failure with the seed of the present input, which repeats it."""
    return f"seed {_present['seed']}: {failure}"


def changed(data: bytes, chance: random.Random, most: int = 3) -> bytes:
    """A copy with one to `most` changes: bytes set, taken out, put in, repeated, or the end cut off."""
    some = bytearray(data)
    for _ in range(chance.randint(1, most)):
        at = chance.randrange(len(some) + 1)
        length = chance.choice((1, 1, 1, 2, 4, 8, 32))
        match chance.randrange(7):
            case 0 | 1:
                some[at : at + 1] = bytes([chance.choice(_BYTES)])
            case 2:
                some[at : at + length] = chance.randbytes(length)
            case 3:
                del some[at : at + length]
            case 4:
                some[at:at] = chance.randbytes(length)
            case 5:
                some[at:at] = some[at : at + length]
            case 6:
                if chance.random() < 0.3:
                    del some[at:]
                else:
                    some[at : at + 4] = chance.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f"))
    return bytes(some)


def changed_in_place(data: bytes, chance: random.Random, most: int = 3) -> bytes:
    """The same, of the same length."""
    some = bytearray(data)
    for _ in range(chance.randint(1, most)):
        at = chance.randrange(max(len(some), 1))
        length = min(chance.choice((1, 1, 1, 2, 4, 8)), len(some) - at)
        fill = chance.randbytes(length) if chance.random() < 0.5 else bytes([chance.choice(_BYTES)]) * length
        some[at : at + length] = fill
    return bytes(some)


def changed_document(document: Any, chance: random.Random, most: int = 2) -> Any:
    """A copy of a JSON document with values replaced, taken out, renamed or moved."""
    some = copy.deepcopy(document)
    for _ in range(chance.randint(1, most)):
        places = list(_places(some))
        if not places:
            return chance.choice(_VALUES)
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = copy.deepcopy(chance.choice(_VALUES))
            case 2:
                del holder[key]
            case 3:
                other, from_key = chance.choice(places)
                if other is not holder and from_key in (other if isinstance(other, dict) else range(len(other))):
                    holder[key] = copy.deepcopy(other[from_key])
            case 4:
                if isinstance(holder, dict):
                    holder[chance.choice(("", "id", "a\x00", "x" * 300, "penstock-error:", "Ä"))] = holder.pop(key)
    return some


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield document, key
            yield from _places(value)
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield document, place
            yield from _places(value)


def held(run: Callable[[], object], what: object, *facts: str, size: int | None = None) -> str:
    """Run it: it may end well or in one of our own errors that has these facts, within five seconds.

    With the `size` of its input in bytes, the memory of one in eight runs is limited too.
    """
    began = time.process_time()
    named: PenstockError | None = None
    try:
        if size is not None and in_one_of_eight():
            within_memory(run, what, size)
        else:
            run()
    except PenstockError as error:
        named = error
    except MemoryExceeded:
        raise
    except Exception as error:
        raise AssertionError(with_seed(f"a raw {type(error).__name__} ({error}) from {what!r:.2000}")) from error
    assert time.process_time() - began < SECONDS, with_seed(f"too slow: {what!r:.2000}")
    if named is None:
        return "well"
    assert named.message, with_seed(f"an error without a message: {what!r:.2000}")
    assert set(facts) <= named.facts.keys(), with_seed(f"{named}\nlacks {facts}: {what!r:.2000}")
    return type(named).__name__


def in_one_of_eight() -> bool:
    """Return true for one of eight calls: runs that are measured are several times slower."""
    return next(_calls) % 8 == 0


class MemoryExceeded(AssertionError):
    """A decoder that used much more memory than its input has bytes."""


def within_memory(run: Callable[[], object], what: object, size: int, floor: int = MEMORY_FLOOR) -> None:
    """Run it; MemoryExceeded if the process had more at the peak than ten times its input and `floor`.

    Measured is the memory in use by the process, whose peak Linux can reset. `tracemalloc` would be more exact, but to
    stop it while other threads allocate crashes Python before 3.13.
    """
    pa.default_memory_pool().release_unused()
    _PEAK.write_text("5")
    before = _resident("VmRSS")
    try:
        run()
    finally:
        peak = _resident("VmHWM") - before
        # Here, so that an error does not hide the memory that was used before it.
        if peak > floor + MOST_TIMES * size:
            raise MemoryExceeded(with_seed(f"{peak >> 20} MiB for {size} bytes: {what!r:.2000}"))


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))
