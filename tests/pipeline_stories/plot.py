"""Draws a story from a seed: a pipeline, its source tables, and a stream of changes that is cut at random places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.pipeline_stories.columns import UNREADABLE
from tests.pipeline_stories.description import PARTS, SEQUENCE, TABLES, Description
from tests.pipeline_stories.dimensions import DimensionPlot
from tests.pipeline_stories.story import Change, Row, Step, Story

IDS = 12
SHARDS = ("shop_0", "shop_1")
WORDS = ("a", "b", "bad", "", " x ", "ünïcødé 数据", "\U0001f469\u200d", "it's", 'q"\\', "0", "null", "line\nbreak")
INTS = ("0", "1", "-1", "5", "-5", "2147483647", "-2147483648")
BIGS = ("0", "9223372036854775807", "-9223372036854775808", "42", "9007199254740993")
DECIMALS = ("0.00", "1.50", "-0.01", "9999999999.99", "-9999999999.99")
TIMES = ("1970-01-01 00:00:00.000", "2024-02-29 23:59:59.999", "1969-12-31 23:59:59.999", "9999-12-31 23:59:59.999")
POISON = ("not json", "{", "[]", "\xff\xfe", '{"type": 5}', "[1]", '"text"')
POINTS = ("create", "create", "create", "close", "write", "any", "delete", "list", "read")
FAULTS = (
    *("DIES_BEFORE", "DIES_AFTER", "DIES_TORN", "DIES_LATE"),
    *("BEFORE", "AFTER", "AFTER", "TORN", "LATE", "DENIED", "STALE"),
)


def story_of(seed: int) -> Story:
    return Plot(random.Random(seed), seed).story()


@dataclass
class Plot:
    """What the source has now, so that most changes are possible ones."""

    draw: random.Random
    seed: int
    pipeline: Description = field(init=False)
    rows: dict[str, dict[tuple[str, ...], Row]] = field(default_factory=dict)
    sent: list[list[tuple[int, Change]]] = field(default_factory=list)  # by partition
    added: int = 0
    changes: int = 0
    at: int = 0
    # Apart, so that whether a run needs Spark changes nothing else in a story.
    without_spark: random.Random = field(init=False)
    empties: random.Random = field(init=False)  # apart in the same way
    joined: random.Random = field(init=False)
    renames: random.Random = field(init=False)
    dimension: DimensionPlot = field(init=False)
    joins: bool = False

    def story(self) -> Story:
        draw = self.draw
        self.without_spark = random.Random(f"without Spark {self.seed}")
        self.empties = random.Random(f"empties {self.seed}")
        self.joined = random.Random(f"joined ranges {self.seed}")
        self.renames = random.Random(f"renames {self.seed}")
        self.joins = self.joined.random() < 0.4
        lookups = random.Random(f"lookups {self.seed}")
        deletes, stops = (random.Random(f"{name} {self.seed}") for name in ("deletes of routes", "rules that stop"))
        self.pipeline = Description(draw, deletes, lookups, stops)
        self.dimension = DimensionPlot(lookups, PARTS)
        partitions = draw.choice((1, 1, 2, 3))
        self.sent = [[] for _ in range(partitions)]
        steps = list(self._steps())
        return Story(
            self.pipeline.kind,
            self.pipeline.keys,
            self.pipeline.sections(),
            steps,
            {
                "piece": self._piece(draw.choice((1, 2, 5, 100))),
                "small": self._small(draw.choice((0, 0, 10_000))),
                "looks": draw.random() < 0.3,
            },
            draw.choice((1, 2, 3)),
            draw.choice((1, 2, 3)),
            partitions,
            self.seed,
            self.joins,
        )

    def _piece(self, drawn: int) -> int:
        return self.joined.choice((1, 2, 3)) if self.joins else drawn

    def _small(self, drawn: int) -> int:
        return drawn or self.without_spark.choice((0, 1, 10_000))

    def _steps(self) -> Iterator[Step]:
        draw, changes = self.draw, self.dimension.draw
        if self.pipeline.looks_up:
            yield self.dimension.created()
        for _ in range(draw.randrange(2, 6)):
            for _ in range(draw.choice((1, 1, 2))):
                messages = self._messages(draw.choice((1, 3, 6, 12)))
                yield {"op": "send", "messages": list(self._with_markers(messages))}
            yield self._with_lookups(self._run())
            if self.pipeline.looks_up and changes.random() < 0.6:
                yield self.dimension.changed()
            if draw.random() < 0.2:
                # Of letters that are older than the rows of a history or a sequence, the order of compactions decides
                # what is left.
                again = "compact" if self.pipeline.is_ordered else "replay"
                yield {"op": draw.choice(("compact", "expire", again, "renew", "renew"))}
            if self.empties.random() < 0.1:
                how = self.empties.choice(("truncate", "drop"))
                yield {"op": "empty", "how": how, "which": self.empties.randrange(100)}
            if self.renames.random() < 0.12:
                tables = self.renames.choice((1, 2, 2))
                exchange = tables == 2 and self.renames.random() < 0.4
                yield {"op": "rename", "tables": tables, "which": self.renames.randrange(100), "exchange": exchange}

    def _run(self) -> Step:
        draw, run = self.draw, dict[str, Any](op="run")
        if draw.random() < 0.4:
            run["limit"] = draw.choice((2, 5, 9))
        if draw.random() < 0.4:
            run["fault"] = [draw.choice(POINTS), draw.choice((1, 2, 3, 5, 9, 17, 40)), draw.choice(FAULTS)]
        elif draw.random() < 0.15:
            run["zombie"] = True
        if draw.random() < 0.15:
            run["between"] = [draw.choice(("compact", "expire")) for _ in range(draw.choice((1, 2)))]
        if self.pipeline.defers and draw.random() < 0.5:
            run["open"] = True
        if self.pipeline.isolates and draw.random() < 0.5:
            run["torn"] = "merged" if self.pipeline.merges else draw.choice(tuple(self.pipeline.keys))
            if draw.random() < 0.5:
                run["leaves_parked"] = True
        return run | self._ways(run)

    def _with_lookups(self, run: Step) -> Step:
        """Let the dimension be changed between the batches of a run, or while a batch waits for rows of it."""
        if not self.pipeline.looks_up or self.dimension.draw.random() < 0.7:
            return run
        if self.pipeline.waits:
            return {**run, "late": {**self.dimension.written(), "how": "add"}}
        return {**run, "between": [*run.get("between", ()), self.dimension.written()]}

    def _ways(self, run: Step) -> Step:
        """Return whether the run needs Spark, and where this is new."""
        draw, ways = self.without_spark, dict[str, Any]()
        for name in ("local", "again_local"):
            if draw.random() < 0.5:
                ways[name] = True
        if "zombie" in run:
            ways["zombie"] = draw.choice(("local", "spark"))
        if "fault" in run and draw.random() < 0.5:
            name, most = draw.choice((("checkpoint", 60), ("checkpoint create", 6), ("checkpoint create", 6)))
            ways["fault"] = [name, draw.randint(1, most), run["fault"][2]]
        return ways

    def _messages(self, count: int) -> Iterator[tuple[int, Change]]:
        draw = self.draw
        for _ in range(count):
            roll = draw.random()
            partition = draw.randrange(len(self.sent))
            if roll < 0.04:
                yield partition, {"poison": draw.choice(POISON)}
            elif roll < 0.06:
                yield partition, {"tombstone": '{"id": 1}'}
            elif roll < 0.1 and self.sent[partition]:
                # The producer repeats its last messages, all of them, as after a lost acknowledgement.
                for message in self.sent[partition][-draw.choice((1, 2, 4)) :]:
                    yield message
            elif roll < 0.14 and self.pipeline.kind == "canal-json":
                yield self._unreadable()
            else:
                message = self._change()
                self.sent[message[0]].append(message)
                yield message
        if draw.random() < 0.1 and self.added < 3:
            self.added += 1

    def _with_markers(self, messages: Iterator[tuple[int, Change]]) -> Iterator[tuple[int, Change]]:
        """Yield the messages, and between them offsets without a message. Some ranges have only such offsets."""
        for partition, change in messages:
            yield partition, change
            if self.joins and self.joined.random() < 0.15:
                for _ in range(self.joined.choice((1, 1, 2, 5))):
                    yield partition, {"marker": "commit"}

    def _unreadable(self) -> tuple[int, Change]:
        """Return a change with a value that no table can store. The source has not made it."""
        table, shard = self.draw.choice(tuple(self.pipeline.keys)), self.draw.randrange(2)
        row = {**self._row(table, shard), "n": UNREADABLE}
        known = self.rows.get(table, {}).get(self._key(self.pipeline.keys[table], row))
        before = None if known is None else {**dict.fromkeys(row), **known}
        return self._message(table, shard, before, row)

    def _change(self) -> tuple[int, Change]:
        draw = self.draw
        table = draw.choice(tuple(self.pipeline.keys))
        shard = draw.randrange(2)
        keys, known = self.pipeline.keys[table], self.rows.setdefault(table, {})
        mine = [key for key in known if int(known[key]["id"] or 0) % 2 == shard]
        before = known[draw.choice(mine)] if mine and draw.random() < 0.7 else None
        after: Row | None = self._row(table, shard)
        if before is not None:
            after = self._changed(table, before, after or {}) if draw.random() < 0.7 else None
        elif tuple(str(after[name]) for name in keys) in known and keys:  # type: ignore[index]
            before = known[tuple(str(after[name]) for name in keys)]  # type: ignore[index]
        if before is not None and after is not None:
            before = {**dict.fromkeys(after), **before}  # a column that was added since then is null
        for row in (before, after):
            key = self._key(keys, row)
            if row is before and before is not None:
                known.pop(key, None)
            elif row is not None:
                known[key] = row
        if after is None and self._may_lack_values(table) and draw.random() < 0.4:
            before = {name: value if name in keys else None for name, value in (before or {}).items()}
        return self._message(table, shard, before, after)

    def _message(self, table: str, shard: int, before: Row | None, after: Row | None) -> tuple[int, Change]:
        self.at += self.draw.choice((0, 1, 1000))
        operation = "I" if before is None else "D" if after is None else "U"
        change = {"db": SHARDS[shard], "table": table, "op": operation, "before": before, "after": after, "at": self.at}
        # All changes of a shard of a table are in one partition, in order.
        return (TABLES.index(table) * 2 + shard) % len(self.sent), change

    def _may_lack_values(self, table: str) -> bool:
        """Return whether deletes may have the key alone, as Debezium writes them without REPLICA IDENTITY FULL."""
        rule = self.pipeline.rules[table]
        whole = {"primary-keys", "partition-keys"} & rule.keys() or SEQUENCE in rule.get("table-options", {})
        return self.pipeline.kind.startswith("debezium") and bool(self.pipeline.keys[table]) and not whole

    @staticmethod
    def _key(keys: list[str], row: Row | None) -> tuple[str, ...]:
        return () if row is None else tuple(str(row[name]) for name in keys or row)

    def _changed(self, table: str, before: Row, other: Row) -> Row:
        """Return the row after an update, which may move it to another key that is free."""
        keys = self.pipeline.keys[table]
        names = [name for name in other if name not in {*keys, "id", "s"}]
        moves = self.draw.random() < 0.15
        changed = {"s"} & other.keys() | {name for name in names if self.draw.random() < 0.4}
        after = {**dict.fromkeys(other), **before, **{name: other[name] for name in changed}}
        free = self._key(keys, {**after, "id": other["id"]}) not in self.rows[table]
        return {**after, "id": other["id"]} if moves and free else after

    def _row(self, table: str, shard: int) -> Row:
        draw, pipeline = self.draw, self.pipeline
        must = "p" in pipeline.rules[table].get("primary-keys", ())
        orc = pipeline.sink["table-options"].get("file.format") == "orc"
        # ORC cannot store fractions of the last second before 1970, and the product refuses them.
        times = [time for time in TIMES if not (orc and time.startswith("1969"))]
        # Tables that go into one have no key in common.
        number = draw.randrange(IDS) + (IDS * TABLES.index(table) if pipeline.merges else 0)
        row: dict[str, str | None] = {
            "id": str(2 * number + shard),
            "k": draw.choice(("x", "y")),
            "p": draw.choice(PARTS if must else (*PARTS, None)),
            "n": draw.choice((*INTS, None)),
            "v": draw.choice((*WORDS, None)),
            "b": draw.choice((*BIGS, None)),
            "d": draw.choice((*DECIMALS, None)),
            "t": draw.choice((*times, None)),
        }
        if SEQUENCE in pipeline.rules[table].get("table-options", {}):
            self.changes += 1
            row["s"] = f"{self.changes:06}"
        return row | {f"x{number}": draw.choice((*INTS, None)) for number in range(self.added)}
