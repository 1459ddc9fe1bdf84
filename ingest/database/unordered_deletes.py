"""Deletes whose log lacks the columns of the target table's sequence.field.

Such a delete is older than every row of its key and has no effect, so it is counted and logged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

log = logging.getLogger(__name__)

UNORDERED_DELETE = "delete-without-sequence"


def note_unordered(deletes: int, table: str, columns: Sequence[str], oddities: Counter[str], hint: str) -> None:
    """Count and log deletes of a source table that lack these columns of its target table's sequence.field."""
    if not deletes or not columns:
        return
    oddities[UNORDERED_DELETE] += deletes
    log.warning(
        "event=deletes_without_effect table=%s deletes=%d missing=%s reason=%s hint=%s",
        table,
        deletes,
        ",".join(columns),
        "the log lacks columns of the target table's sequence.field, so its rows stay",
        f"{hint}; then read the table again with --reset TABLE",
    )
