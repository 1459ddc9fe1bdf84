"""The size of the value that begins at each byte of Avro blocks, computed for all bytes at once.

Arithmetic on buffers of single bytes costs less than a tenth of a nanosecond per byte. So the size of a value of each
kind is computed for all bytes, though values begin at few of them. A reader looks up the size to pass over a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
WIDTHS = {"float": 4, "double": 8, "boolean": 1}
NUMBER, TEXT, RECORD = "long", "string", "record"
# The kinds whose values are encoded alike.
ENCODED_AS = {
    "int": NUMBER,
    NUMBER: NUMBER,
    "bytes": TEXT,
    TEXT: TEXT,
    RECORD: RECORD,
    **{width: width for width in WIDTHS},
}
LONGEST_NUMBER = 10  # bytes of a number of 64 bits
# A kind of value, and whether it is nullable: then the first byte is the branch of its union.
Kind = tuple[str, bool]

# Bytes that are processed at once: fewer cost more calls, and more do not stay in the cache of a core.
_PART = 1 << 18
_AHEAD = LONGEST_NUMBER + 1  # bytes that may belong to a value beside its first one


def kind_of(node: Any) -> Any:
    """Return the name of the type of a schema node."""
    return node["type"] if isinstance(node, dict) else node


def value_sizes(data: Bytes, kinds: Iterable[Kind]) -> dict[Kind, Bytes]:
    """Return the sizes of values of these kinds, for each byte that a value may begin at.

    A size of 0 stands for a text of 64 bytes or more, and for bytes that no value begins with. A size of more than
    LONGEST_NUMBER stands for a number that does not end. The data ends with _AHEAD zeros at least.
    """
    found = {kind: np.empty(len(data), np.uint8) for kind in kinds}
    for sizes in found.values():
        sizes[-_AHEAD:] = 1
    for first in range(0, len(data) - _AHEAD, _PART):
        part = data[first : first + _PART + _AHEAD]
        _fill({kind: sizes[first : first + len(part) - _AHEAD] for kind, sizes in found.items()}, part)
    return found


def _fill(targets: dict[Kind, Bytes], part: Bytes) -> None:
    count = len(part) - _AHEAD
    null = (part[:count] == 0).view(np.uint8)
    is_present = (part[:count] == 2).view(np.uint8)  # the second branch: the zigzag number 1
    for name in {name for name, _ in targets}:
        plain = _of_numbers(part) if name == NUMBER else _of_texts(part) if name == TEXT else None
        if (target := targets.get((name, False))) is not None:
            target[:] = WIDTHS[name] if plain is None else plain[:count]
        if (target := targets.get((name, True))) is None:
            continue
        if plain is None:
            np.multiply(is_present, np.uint8(WIDTHS.get(name, 0) + 1), out=target)
        else:
            size = plain[1 : count + 1]
            np.multiply(size + (size != 0).view(np.uint8), is_present, out=target)
        target += null


def _of_texts(part: Bytes) -> Bytes:
    # A length is even as a zigzag number, since it is not negative, and a single byte below 128.
    size = part >> np.uint8(1)
    size += np.uint8(1)
    size *= ((part & np.uint8(0x81)) == 0).view(np.uint8)
    return size


def _of_numbers(part: Bytes) -> Bytes:
    # All bytes of a number except the last have their highest bit set. `run2` counts such bytes among two bytes from a
    # place, up to the first without it; `all2` is 1 if both have it, and so on.
    more = part >> np.uint8(7)
    all2 = more[:-1] & more[1:]
    run2 = more[:-1] + all2
    run4 = run2[:-2] + all2[:-2] * run2[2:]
    all4 = all2[:-2] & all2[2:]
    run8 = run4[:-4] + all4[:-4] * run4[4:]
    all8 = all4[:-4] & all4[4:]
    size: Bytes = run8[:-2] + all8[:-2] * run2[8:]
    size += np.uint8(1)
    return size
