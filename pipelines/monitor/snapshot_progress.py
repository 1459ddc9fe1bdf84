"""How far the first copy of a server's tables is, by rows against the server's own estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.pipelines.monitor.status_text import span

_WIDTH = 10


@dataclass(frozen=True, slots=True)
class TableCopy:
    table: str
    rows: int
    expected: int

    @property
    def share(self) -> float:
        """Below 1 until the table is done: estimates of servers are easily a tenth off."""
        return min(0.99, self.rows / self.expected) if self.expected else 0.0


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """`tables` are those still being copied; `done_rows` are the rows of the tables that this run has copied whole."""

    tables: tuple[TableCopy, ...] = ()
    done: int = 0
    rows_per_second: float = 0.0
    done_rows: int = 0

    @property
    def seconds_left(self) -> float | None:
        left = sum(max(0, table.expected - table.rows) for table in self.tables)
        return left / self.rows_per_second if self.rows_per_second else None

    @property
    def share(self) -> float:
        """The share of all tables of this copy, those that are done too: it does not fall when one of them is."""
        return min(0.99, self.rows / (self.expected or 1))

    @property
    def rows(self) -> int:
        return self.done_rows + sum(table.rows for table in self.tables)

    @property
    def expected(self) -> int:
        return self.done_rows + sum(max(table.expected, table.rows) for table in self.tables)

    def line(self) -> str:
        bar = "#" * int(self.share * _WIDTH) + "-" * (_WIDTH - int(self.share * _WIDTH))
        left = "" if self.seconds_left is None else f"  about {span(self.seconds_left)} left"
        total = self.done + len(self.tables)
        return f"copying {self.share:.0%}{left} [{bar}] ({self.done} of {total} tables done)"

    def facts(self) -> dict[str, Any]:
        left = self.seconds_left
        return {
            "tables": [
                {"table": table.table, "rows": table.rows, "expected": table.expected, "share": round(table.share, 4)}
                for table in self.tables
            ],
            "done": self.done,
            "rows_per_second": round(self.rows_per_second, 1),
            "seconds_left": None if left is None else round(left),
        }


@dataclass(slots=True)
class Copying:
    """`expected`: rows by table of the warehouse, as the server estimates; `sources`: source tables to those."""

    expected: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _copied: set[str] = field(default_factory=set)  # tables of this copy
    now: SnapshotProgress = field(default_factory=SnapshotProgress)

    def batch(self, rows: Mapping[str, int], end: Mapping[str, Any], per_second: float) -> SnapshotProgress:
        """Count a batch and return the progress behind it. `end` are the source's offsets at its end."""
        waiting = {".".join(name) for name in end.get("waiting", ())}
        waiting |= {f"{one.get('database')}.{one.get('table')}" for one in end.get("cursors", ())}
        open_ = {self.sources[name] for name in waiting if name in self.sources}
        for table, count in rows.items():
            self._rows[table] = self._rows.get(table, 0) + count
        # The first batch may hold small tables whole, which were never seen as open.
        self._copied |= open_ | (set() if self._copied else set(rows) & set(self.expected)) if open_ else set()
        done_rows = sum(self._rows.get(table, 0) for table in self._copied - open_)
        copies = [TableCopy(table, self._rows.get(table, 0), self.expected.get(table, 0)) for table in sorted(open_)]
        done = len(self.expected) - len(open_) if open_ else 0
        self.now = SnapshotProgress(tuple(copies), done, per_second if open_ else 0.0, done_rows)
        return self.now
