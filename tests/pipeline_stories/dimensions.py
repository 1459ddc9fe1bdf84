"""The dimension that pipelines of stories look up in: what happens to it, and its rows at each of its snapshots."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.table.catalog import settings
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from tests.pipeline_stories.conditions import Condition
from tests.pipeline_stories.story import Row, Step

DIMENSION = "dim.parts"
KEY, ADDED = "p", ("w", "bw")
COLUMNS = [(KEY, "STRING NOT NULL"), ("j", "INT NOT NULL"), ("w", "STRING"), ("bw", "BIGINT")]
Found = Mapping[str, Mapping[str, Any]]  # the columns to add, by the key

# Conditions on the columns that a lookup has added.
LOOKED_UP: Mapping[str, Condition] = {
    "w <> 'c'": lambda row: row.get("w") not in {None, "c"},
    "bw is not null": lambda row: row.get("bw") is not None,
}
_KEYS = ([KEY], [KEY], [KEY, "j"], [])  # by the whole key, by a part of it, and without one
_OPTIONS: Sequence[Mapping[str, str]] = (
    {"bucket": "1"},
    {"bucket": "2"},
    {"bucket": "-1"},
    {"bucket": "1", "changelog-producer": "lookup"},
    {"bucket": "1", "deletion-vectors.enabled": "true"},
)


@dataclass
class DimensionPlot:
    """Draws what happens to a dimension. `parts` are the keys that rows of source tables have."""

    draw: random.Random
    parts: Sequence[str]

    def created(self) -> Step:
        keys = self.draw.choice(_KEYS)
        options = self.draw.choice(_OPTIONS) if keys else {}
        rows = self._rows() if self.draw.random() < 0.8 else {}
        return {"op": "dimension", "how": "create", "keys": keys, "options": options, "rows": rows}

    def changed(self) -> Step:
        way = self.draw.choice(("write", "write", "delete", "roll back", "compact", "expire", "create"))
        match way:
            case "create":
                return self.created()
            case "write":
                return self.written()
            case "delete":
                return {"op": "dimension", "how": way, "parts": self.draw.sample(self.parts, 2)}
        return {"op": "dimension", "how": way, "back": self.draw.choice((1, 1, 2))}

    def written(self) -> Step:
        return {"op": "dimension", "how": "write", "rows": self._rows()}

    def lookup(self, *, may_wait: bool) -> dict[str, Any]:
        join = self.draw.choice(("left", "left", "inner"))
        step = {"table": DIMENSION, "on": {"p": KEY}, "columns": list(ADDED), "join": join}
        waits = may_wait and self.draw.random() < 0.25
        return step | ({"retry": {"fixed-delay": "1s", "max-attempts": 2}} if waits else {})

    def _rows(self) -> dict[str, list[Any]]:
        draw = self.draw
        parts = draw.sample(self.parts, draw.choice((1, 2, 4)))
        return {part: [draw.choice(("a", "b", "c", None)), draw.choice((0, 2**53 + 1, None))] for part in parts}


@dataclass
class Dimension:
    """A dimension and its rows at each snapshot. `during` are the snapshots that were the newest since a moment."""

    warehouse: str
    at: dict[int, Found] = field(default_factory=dict)
    during: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)  # snapshots that were the last of a change
    newest: int = 0

    @property
    def rows(self) -> Found:
        return self.at[self.newest]

    def begin(self) -> None:
        """Forget what was the newest before this moment."""
        self.during = {self.newest}

    def happen(self, step: Step) -> None:
        rows = {part: dict(zip(ADDED, values, strict=True)) for part, values in step.get("rows", {}).items()}
        if step["how"] == "create":
            self._create(step, rows)
            return
        table = self._catalog().table(DIMENSION)
        replaces = step["how"] == "write" and bool(table.primary_keys)
        match step["how"]:
            case "write" | "add":  # others stay as they are if rows are added
                rows = {part: row for part, row in rows.items() if replaces or part not in self.rows}
                _write(table, rows, "+I")
                self._note(table, {**self.rows, **rows})
            case "delete":
                gone = {part: self.rows[part] for part in step["parts"] if part in self.rows and table.primary_keys}
                _write(table, gone, "-D")
                self._note(table, {part: row for part, row in self.rows.items() if part not in gone})
            case "roll back":
                # Not to a snapshot before its compaction: the next one would show its rows.
                ids = [snapshot.id for snapshot in table.snapshots if snapshot.id in self.whole]
                if len(ids) > step["back"]:
                    self._roll_back(table, ids[-1 - step["back"]])
            case "compact":
                table.compact(full=True)
                self._note(table, self.rows)
            case "expire":
                expire_snapshots(table.store, retain_max=1, retain_min=1, older_than=table.store.ambient.now_millis())
                self.at = {self.newest: self.rows}

    def _catalog(self) -> Catalog:
        # With the clock and the chance of the simulated process, so that equal seeds give equal traces.
        process: Any = settings
        return Catalog(self.warehouse, ambient=process.Environment())

    def _create(self, step: Step, rows: Found) -> None:
        catalog = self._catalog()
        catalog.create_database("dim", ignore_if_exists=True)
        if self.at:
            catalog.drop_table(DIMENSION)
        table = catalog.create_table(DIMENSION, COLUMNS, primary_keys=step["keys"], options=step["options"])
        self.at, self.newest, self.whole = {0: {}}, 0, set()
        self.during.add(0)
        _write(table, rows, "+I")
        self._note(table, rows)

    def _roll_back(self, table: Table, to: int) -> None:
        table.rollback_to(to)
        self.at = {number: rows for number, rows in self.at.items() if number <= to}
        self.whole = {number for number in self.whole if number <= to}
        self.newest = to
        self.during.add(to)

    def _note(self, table: Table, rows: Found) -> None:
        """Record the rows of the snapshots that were just made."""
        before, latest = self.rows, table.latest_snapshot
        waits = "deletion-vectors.enabled" in table.options  # for the compaction, before rows are visible
        for snapshot in [snapshot for snapshot in table.snapshots if snapshot.id > self.newest]:
            self.at[snapshot.id] = before if waits and snapshot != latest else rows
            self.during.add(snapshot.id)
            self.newest = snapshot.id
        self.whole.add(self.newest)


def _write(table: Table, rows: Found, kind: str) -> None:
    if not rows:
        return
    full = [{KEY: part, "j": 0, **row} for part, row in rows.items()]
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist(full, schema=table.schema), [kind] * len(full))
        writer.commit()


def joined(row: Row, found: Found) -> dict[str, Any]:
    """Return the row with the columns of a dimension."""
    return {**row, **(found.get(row.get("p") or "") or dict.fromkeys(ADDED))}


def is_found(row: Row, found: Found) -> bool:
    return row.get("p") in found
