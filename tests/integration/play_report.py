"""The report of a random play that fails: all that was done until then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def history_shown(history: Sequence[str]) -> Iterator[None]:
    """Print the history, which grows meanwhile, if what is done in this context fails or is interrupted."""
    try:
        yield
    except BaseException:
        print("\n".join(history))
        raise
