"""Tables whose rows, partitions and tags come and go by the clock. A sixth of the stories uses them.

The model keeps every row. A row that has expired may be read or not, depending on when files were compacted and
partitions checked, so the checks leave such rows out on both sides. A row that has not expired must be there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from penstock.table.handle import Table
from penstock.table.meta.tag_periods import TagPeriod
from tests.golden.relations import Relation
from tests.simulation.store import START, SimClock
from tests.stories.shelf import Line
from tests.stories.wider import FIRST, Column

DAY = 86_400_000
RECORD_TIME, PARTITION_TIME, TAGS = "record-level.expire-time", "partition.expiration-time", "tag.automatic-creation"
BEGIN = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=START)
# Partitions whose time has come at the start of a story, soon, later, and perhaps never.
PARTITIONS = tuple((BEGIN + timedelta(days=days)).strftime("%Y-%m-%d") for days in (-9, 1, 3, 9, 30))
AUTOMATIC = re.compile(r"\d{4}-?\d\d-?\d\d( ?\d\d(\d\d)?)?|batch-write-.*")
# Rules of merges with which an older row of a key may come back when a newer one expires.
MERGES = ("merge-engine", "sequence.field", "ignore-delete")
PARTITION_OPTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("partition.expiration-check-interval", ("1 ms", "1 d")),
    ("partition.expiration-strategy", ("values-time",)),
    ("partition.expiration-max-num", ("1", "2")),
    ("partition.expiration-batch-size", ("1",)),
    ("partition.timestamp-pattern", ("$p",)),
    ("end-input.check-partition-expire", ("true", "true", "true")),
)
TAG_OPTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tag.creation-period", ("hourly", "two-hours")),
    ("tag.creation-period-duration", ("90 min",)),
    ("tag.creation-delay", ("1 min",)),
    ("tag.period-formatter", ("without_dashes", "without_dashes_and_spaces")),
    ("tag.automatic-completion", ("true",)),
    ("tag.num-retained-max", ("1", "3")),
    ("tag.create-success-file", ("true",)),
    ("sink.process-time-zone", ("UTC",)),
)


@dataclass(slots=True)
class Timed:
    """The table of a story, and what the plot needs to draw its rows and steps."""

    options: dict[str, str]
    columns: list[Column]
    days: int = 0  # days that have passed
    weights: dict[str, int] = field(default_factory=dict)

    @property
    def partitions(self) -> Sequence[str] | None:
        return PARTITIONS if PARTITION_TIME in self.options else None

    def cell(self, name: str) -> Any:
        """Return the time of a row: a later row of a key never has an earlier one."""
        millis = START + self.days * DAY
        return millis if dict(self.columns)[name] == "BIGINT" else millis // 1000


def is_timed(seed: int) -> bool:
    """Return whether the story has such a table: one that has faults, and one that has none, of each twelve seeds."""
    return seed >= FIRST and seed % 12 in {5, 8}


def timed(seed: int, kind: str, options: Mapping[str, str], columns: Sequence[Column]) -> Timed:
    draw = random.Random(f"{seed} timed")
    ways = ["tags", *(["partitions"] if "p" in dict(columns) else [])]
    if kind in {"fixed", "dynamic", "cross"}:
        ways.append("records")
    chosen = draw.sample(ways, draw.randint(1, len(ways)))
    made = Timed(dict(options), list(columns), weights={"days": 10, "maintain": 6})
    if chosen != ["tags"]:
        ends = (".aggregate-function", ".ignore-retract")
        made.options = {
            key: text
            for key, text in options.items()
            if key not in {*MERGES, "changelog-producer"} and not key.endswith(ends)
        }
    if "records" in chosen:
        made.columns.append(("e", draw.choice(("INT", "BIGINT"))))
        made.options |= {RECORD_TIME: draw.choice(("2 d", "10 d")), "record-level.time-field": "e"}
    if "partitions" in chosen:
        made.options |= {PARTITION_TIME: draw.choice(("1 d", "5 d")), "partition.timestamp-formatter": "yyyy-MM-dd"}
        made.options |= _some(draw, PARTITION_OPTIONS)
        made.weights["expire_partitions"] = 6
    if "tags" in chosen:
        made.options[TAGS] = draw.choice(("process-time", "process-time", "batch"))
        made.options |= _some(draw, TAG_OPTIONS)
        if made.options[TAGS] == "batch":
            made.options.pop("tag.num-retained-max", None)  # this limit counts the tags of users, too
    return made


def _some(draw: random.Random, options: Sequence[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    return {key: draw.choice(values) for key, values in options if draw.random() < 0.35}


@dataclass(slots=True)
class Lasting:
    """The rows that a table must have now: those that have not expired when a check begins."""

    options: Mapping[str, str]
    clock: SimClock
    _now: int = START

    def begin(self) -> None:
        """Begin a check."""
        self._now = self.clock.millis

    @property
    def all(self) -> bool:
        """Whether no row ever expires."""
        return not {RECORD_TIME, PARTITION_TIME} & self.options.keys()

    def relation(self, rows: Relation) -> Relation:
        if self.all:
            return rows
        lasts = [self._lasts(dict(zip(rows.columns, row, strict=True))) for row in rows.rows]
        return replace(rows, rows=[row for row, kept in zip(rows.rows, lasts, strict=True) if kept])

    def relations(self, rows: Mapping[int, Relation]) -> Mapping[int, Relation]:
        return rows if self.all else {number: self.relation(relation) for number, relation in rows.items()}

    def table(self, rows: pa.Table) -> pa.Table:
        if self.all:
            return rows
        known = rows.select([name for name in ("e", "p") if name in rows.column_names]).to_pylist()
        return rows.filter(pa.array([self._lasts(row) for row in known], pa.bool_()))

    def _lasts(self, row: Mapping[str, Any]) -> bool:
        if RECORD_TIME in self.options:
            seconds = row["e"] // 1000 if row["e"] > 10**12 else row["e"]
            if seconds < self._now // 1000 - _days(self.options[RECORD_TIME]) * DAY // 1000:
                return False
        return row.get("p") is None or not self.is_old(row["p"], self._now)

    def is_old(self, partition: str, now: int) -> bool:
        """Return whether a partition has expired at a time."""
        if PARTITION_TIME not in self.options:
            return False
        begin = int(datetime.strptime(partition, "%Y-%m-%d").replace(tzinfo=UTC).timestamp() * 1000)
        return begin < now - _days(self.options[PARTITION_TIME]) * DAY


def _days(text: str) -> int:
    return int(text.removesuffix(" d"))


def check_expired(table: Table, lasting: Lasting, now: int) -> None:
    """Check that an expiry of partitions at a time has left none that was old by then."""
    if "partition.expiration-max-num" in lasting.options:
        return
    found = set(table.scan(["p"]).to_arrow().column("p").to_pylist()) - {None}
    left = sorted(partition for partition in found if lasting.is_old(partition, now))
    assert not left, f"the partitions {left} have not expired"


def learn_automatic_tags(table: Table, line: Line) -> None:
    """Let the model have the tags that the table has made by the clock, each with the rows of its snapshot."""
    found = {name: number for name, number in table.tags.items() if AUTOMATIC.fullmatch(name)}
    for name in [name for name in line.tags if AUTOMATIC.fullmatch(name) and found.get(name) != line.tags[name]]:
        line.forget_tag(name)
    period = TagPeriod.of(table.options)
    for name, number in found.items():
        if name not in line.tags:
            begin, made = period.begin(name), table.store.snapshots.find(number)
            if begin is not None and made is not None:
                assert made.time_millis >= begin + period.millis + period.delay, f"the tag {name} comes too early"
            line.tag(name, number)
