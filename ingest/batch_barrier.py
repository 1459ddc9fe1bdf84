"""Changes of whole tables that cannot be folded into rows: a batch ends before them, and they have one of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BarrierKind = Literal["truncate", "drop", "rename-columns"]


@dataclass(frozen=True, slots=True)
class Barrier:
    """What happened to a source table; `columns` are pairs of old and new names, all at once."""

    kind: BarrierKind
    database: str
    table: str
    columns: tuple[tuple[str, str], ...] = ()
