"""Draws a story from a seed: a pipeline, its source tables, and a stream of changes that is cut at random places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.pipeline_stories.conditions import CONDITIONS, EXPECTED, PROJECTIONS
from tests.pipeline_stories.story import Change, Row, Step, Story
from tests.pipeline_stories.tellers import TELLERS, TYPED

TABLES = ("orders", "items", "notes")
IDS = 12
SHARDS = ("shop_0", "shop_1")
WORDS = ("a", "b", "bad", "", " x ", "ünïcødé 数据", "\U0001f469\u200d", "it's", 'q"\\', "0", "null", "line\nbreak")
PARTS = ("a", "b", "c", "q/r", "%2e%2e", "数")
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
    kind: str = ""
    keys: dict[str, list[str]] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    expect: list[dict[str, Any]] = field(default_factory=list)
    sink: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[tuple[str, ...], Row]] = field(default_factory=dict)
    sent: list[list[tuple[int, Change]]] = field(default_factory=list)  # by partition
    added: int = 0
    at: int = 0

    def story(self) -> Story:
        draw = self.draw
        self.kind = draw.choice(tuple(TELLERS))
        partitions = draw.choice((1, 1, 2, 3))
        self.sent = [[] for _ in range(partitions)]
        self.sink = {
            "deletes": draw.choice(("hard", "hard", "hard", "soft", "history")),
            "table-options": self._options(),
        }
        if draw.random() < 0.15:
            self.sink["compaction"] = {"mode": "none"}
        for table in TABLES[: draw.choice((1, 2, 2, 3))]:
            self._draw_table(table)
        steps = list(self._steps())
        sections: dict[str, Any] = {
            "sink": self.sink,
            "transform": [{"source-table": f"shop_[01].{table}", **rule} for table, rule in self.rules.items() if rule],
            "expect": self.expect,
            "errors": {"bad-record": "dead-letter", "dead-letter": {"max-per-batch": 100000, "max-share": "100%"}},
        }
        return Story(
            self.kind,
            self.keys,
            sections,
            steps,
            {"piece": draw.choice((1, 2, 5, 100)), "small": draw.choice((0, 0, 10_000)), "looks": draw.random() < 0.3},
            draw.choice((1, 2, 3)),
            draw.choice((1, 2, 3)),
            partitions,
            self.seed,
        )

    # the pipeline

    def _options(self) -> dict[str, str]:
        draw = self.draw
        options = {"bucket": draw.choice(("-1", "-1", "1", "2", "3"))}
        producer = draw.choice(("none", "none", "input", "lookup", "full-compaction"))
        if producer != "none":
            options["changelog-producer"] = producer
        shapes = {
            "file.format": ("orc", "avro"),
            "num-sorted-run.compaction-trigger": ("2", "3"),
            "full-compaction.delta-commits": ("1", "3"),
            "write-buffer-size": ("2 kb", "64 kb"),
            "target-file-size": ("1 kb",),
            "lookup-wait": ("false",),
            "commit.force-create-snapshot": ("true",),
        }
        if draw.random() < 0.15:
            options |= {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": draw.choice(("1", "2", "4"))}
        return options | {key: draw.choice(values) for key, values in shapes.items() if draw.random() < 0.12}

    def _draw_table(self, table: str) -> None:
        draw, rule = self.draw, dict[str, Any]()
        history = self.sink["deletes"] == "history"
        self.keys[table] = draw.choice((["id"], ["id"], ["id"], ["id", "k"]))
        if self.sink["deletes"] == "hard" and draw.random() < 0.15:
            self.keys[table] = []
        keyed = bool(self.keys[table])
        if draw.random() < 0.35:
            rule["filter"] = draw.choice(tuple(CONDITIONS))
        if draw.random() < 0.2:
            rule["projection"] = draw.choice(tuple(PROJECTIONS))
        if draw.random() < 0.2:
            rule["mask"] = {"v": draw.choice(("sha256", "keep-first(1)", "null"))}
        if keyed and draw.random() < 0.35:
            # With the partition in the key, a row has a place in each; without, keys move between partitions.
            inside = history or draw.random() < 0.5 or self.sink["table-options"]["bucket"] != "-1"
            rule["partition-keys"] = ["p"]
            rule["primary-keys"] = [*self.keys[table], *(["p"] if inside else [])]
        elif not keyed and draw.random() < 0.3:
            rule["partition-keys"] = ["p"]
        if not keyed:
            rule["table-options"] = {"bucket": "-1", "changelog-producer": "none"}
        if keyed and "partition-keys" not in rule and self.sink["deletes"] == "hard" and draw.random() < 0.3:
            self._draw_engine(rule)
        for _ in range(draw.choice((0, 0, 0, 1, 2))):
            summed = rule.get("projection") == "p, cast(n as BIGINT) as n"
            conditions = [text for text in EXPECTED if "n" in text.split()[0]] if summed else list(EXPECTED)
            # An aggregate refuses to undo rows that a rule may have left out.
            action = "warn" if summed else draw.choice(("warn", "drop", "dead-letter"))
            condition = draw.choice(conditions)
            self.expect.append({"source-table": f"shop_[01].{table}", "condition": condition, "action": action})
        self.rules[table] = rule

    def _draw_engine(self, rule: dict[str, Any]) -> None:
        producer = self.sink["table-options"].get("changelog-producer")
        engines = ["aggregation", "aggregation", "first-row", "partial-update"]
        if "compaction" in self.sink:  # its rows are visible once they are compacted
            engines.remove("first-row")
        engine = self.draw.choice(engines)
        options = {"merge-engine": engine}
        if engine == "aggregation":
            rule |= {"projection": "p, cast(n as BIGINT) as n", "primary-keys": ["p"]}
            rule.pop("mask", None)
            options["fields.n.aggregate-function"] = "sum"
        else:
            options["ignore-delete"] = "true"
        if engine == "first-row" and producer in {"input", "full-compaction"}:
            options["changelog-producer"] = "lookup"
        rule["table-options"] = options

    # the steps

    def _steps(self) -> Iterator[Step]:
        draw = self.draw
        for _ in range(draw.randrange(2, 6)):
            for _ in range(draw.choice((1, 1, 2))):
                yield {"op": "send", "messages": list(self._messages(draw.choice((1, 3, 6, 12))))}
            run: dict[str, Any] = {"op": "run"}
            if draw.random() < 0.4:
                run["limit"] = draw.choice((2, 5, 9))
            if draw.random() < 0.4:
                run["fault"] = [draw.choice(POINTS), draw.choice((1, 2, 3, 5, 9, 17, 40)), draw.choice(FAULTS)]
            elif draw.random() < 0.15:
                run["zombie"] = True
            if draw.random() < 0.15:
                run["between"] = [draw.choice(("compact", "expire")) for _ in range(draw.choice((1, 2)))]
            yield run
            if draw.random() < 0.2:
                again = "compact" if self.sink["deletes"] == "history" else "replay"
                yield {"op": draw.choice(("compact", "expire", again, "renew", "renew"))}

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
            else:
                message = self._change()
                self.sent[message[0]].append(message)
                yield message
        if draw.random() < 0.1 and self.added < 3:
            self.added += 1

    def _change(self) -> tuple[int, Change]:
        draw = self.draw
        table = draw.choice(tuple(self.keys))
        shard = draw.randrange(2)
        keys, known = self.keys[table], self.rows.setdefault(table, {})
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
        self.at += draw.choice((0, 1, 1000))
        operation = "I" if before is None else "D" if after is None else "U"
        change = {"db": SHARDS[shard], "table": table, "op": operation, "before": before, "after": after, "at": self.at}
        # All changes of a shard of a table are in one partition, in order.
        return (TABLES.index(table) * 2 + shard) % len(self.sent), change

    def _may_lack_values(self, table: str) -> bool:
        """Return whether deletes may have the key alone, as Debezium writes them without REPLICA IDENTITY FULL."""
        whole = {"primary-keys", "partition-keys"} & self.rules[table].keys()
        return self.kind.startswith("debezium") and bool(self.keys[table]) and not whole

    @staticmethod
    def _key(keys: list[str], row: Row | None) -> tuple[str, ...]:
        return () if row is None else tuple(str(row[name]) for name in keys or row)

    def _changed(self, table: str, before: Row, other: Row) -> Row:
        """Return the row after an update, which may move it to another key that is free."""
        names = [name for name in other if name not in self.keys[table] and name != "id"]
        moves = self.draw.random() < 0.15
        changed = {name for name in names if self.draw.random() < 0.4}
        after = {**dict.fromkeys(other), **before, **{name: other[name] for name in changed}}
        free = self._key(self.keys[table], {**after, "id": other["id"]}) not in self.rows[table]
        return {**after, "id": other["id"]} if moves and free else after

    def _row(self, table: str, shard: int) -> Row:
        draw = self.draw
        must = "p" in self.rules[table].get("primary-keys", ())
        orc = self.sink["table-options"].get("file.format") == "orc"
        # ORC cannot store fractions of the last second before 1970, and the product refuses them.
        times = [time for time in TIMES if not (orc and time.startswith("1969"))]
        row: dict[str, str | None] = {
            "id": str(2 * draw.randrange(IDS) + shard),
            "k": draw.choice(("x", "y")),
            "p": draw.choice(PARTS if must else (*PARTS, None)),
            "n": draw.choice((*INTS, None)),
            "v": draw.choice((*WORDS, None)),
            "b": draw.choice((*BIGS, None)),
            "d": draw.choice((*DECIMALS, None)),
            "t": draw.choice((*times, None)),
        }
        return row | {f"x{number}": draw.choice((*INTS, None)) for number in range(self.added)}

    @property
    def typed(self) -> bool:
        return self.kind in TYPED
