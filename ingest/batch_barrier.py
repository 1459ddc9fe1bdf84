"""Changes of whole tables that cannot be expressed as rows.

A batch ends before such a change, and the change has a separate batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BarrierKind = Literal["truncate", "drop", "rename-columns"]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A change of a whole source table; `columns` are pairs of old and new names, all renamed at once."""

    kind: BarrierKind
    database: str
    table: str
    columns: tuple[tuple[str, str], ...] = ()
