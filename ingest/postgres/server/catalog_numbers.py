"""Numbers that represent rows of the catalog: a number changes when a statement writes one of its rows.

The offsets contain those of all tables, so they are short.
"""

from __future__ import annotations

COMPUTATION = 2  # numbers of another computation, in older offsets, are compared with nothing
_LIMIT = 1 << 40


def row_number(*values: str) -> str:
    """Return the expression of SQL for the number of a row with these values."""
    # Not hashint8 of two numbers packed into one: it hashes the xor of its halves, so that a statement which swaps
    # numbers between rows would leave their sum as it was.
    return f"mod(hashtextextended(concat_ws('/', {', '.join(values)}), 0), {_LIMIT})"


def rows_number(number: str) -> str:
    """Return the aggregate of SQL for rows with these numbers, in any order; 0 means no rows."""
    return f"COALESCE(sum({number}), 0)"
