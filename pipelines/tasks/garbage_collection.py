"""The pace at which a process that reads and writes rows collects garbage."""

from __future__ import annotations

import gc

# Objects between two searches, by generation.
_SELDOM = (100_000, 50, 100)


def collect_seldom() -> None:
    """Look for garbage seldom from now on, and never among the objects that exist.

    A batch creates hundreds of thousands of objects and no cycles. The search in these objects and in all imported
    modules took a tenth of the time of a batch.
    """
    gc.freeze()
    gc.set_threshold(*_SELDOM)
