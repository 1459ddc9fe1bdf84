"""Log sequence numbers: places in the write-ahead log, as numbers and as the server prints them."""

from __future__ import annotations


def parse_lsn(text: str) -> int:
    """Return the number of `16/B374D848`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return a number as the server prints it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
