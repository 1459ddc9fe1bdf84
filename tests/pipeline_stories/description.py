"""Draws the description of a pipeline: its format, tables, options, transforms, quality rules and routes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.pipeline_stories.conditions import CONDITIONS, EXPECTED, PROJECTIONS
from tests.pipeline_stories.dimensions import LOOKED_UP, DimensionPlot
from tests.pipeline_stories.model import DATABASE
from tests.pipeline_stories.tellers import TELLERS

TABLES = ("orders", "items", "notes")
PARTS = ("a", "b", "c", "q/r", "%2e%2e", "数")
SEQUENCE = "sequence.field"
SUMMED = "p, cast(n as BIGINT) as n"
PRODUCERS = ("none", "none", "input", "lookup", "full-compaction")
SHAPES = {
    "file.format": ("orc", "avro"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "full-compaction.delta-commits": ("1", "3"),
    "write-buffer-size": ("2 kb", "64 kb"),
    "target-file-size": ("1 kb",),
    "lookup-wait": ("false",),
    "commit.force-create-snapshot": ("true",),
    "changelog-producer.row-deduplicate": ("true",),
    "dynamic-bucket.target-row-num": ("2", "5"),
}


@dataclass
class Description:
    """A pipeline, but for its source and its catalog. `keys` are the primary keys of the source tables."""

    draw: random.Random
    # Apart, so that how routes keep deleted rows changes nothing else in a story.
    draw_deletes: random.Random
    draw_lookups: random.Random
    draw_stops: random.Random  # rules that stop the pipeline
    kind: str = ""
    keys: dict[str, list[str]] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)  # the transforms of source tables
    expect: list[dict[str, Any]] = field(default_factory=list)
    routes: list[dict[str, Any]] = field(default_factory=list)
    sink: dict[str, Any] = field(default_factory=dict)
    isolates: bool = False
    merges: bool = False  # all source tables are written to one target table

    def __post_init__(self) -> None:
        draw = self.draw
        self.kind = draw.choice(tuple(TELLERS))
        self.isolates = draw.random() < 0.25
        self.sink = {
            "deletes": draw.choice(("hard", "hard", "hard", "soft", "history")),
            "table-options": self._options(),
        }
        if draw.random() < 0.15:
            self.sink["compaction"] = {"mode": "none"}
        tables = TABLES[: draw.choice((1, 2, 2, 3))]
        self.merges = len(tables) > 1 and draw.random() < 0.12
        for table in tables:
            self._draw_table(table)
        if self.merges:
            self._merge_tables()
        elif draw.random() < 0.25:
            self._draw_freshness()
        if self.draw_deletes.random() < 0.3:
            self._draw_deletes()
        if not self.defers and self.draw_lookups.random() < 0.35:
            self._draw_lookups()
        if self.draw_stops.random() < 0.2:
            self._draw_stop()
        if not self.merges:
            self._draw_marked_parts()

    @property
    def looks_up(self) -> bool:
        return any("lookup" in rule for rule in self.rules.values())

    @property
    def waits(self) -> bool:
        return any("retry" in step for rule in self.rules.values() for step in rule.get("lookup", ()))

    @property
    def defers(self) -> bool:
        return any("freshness" in route for route in self.routes)

    @property
    def is_ordered(self) -> bool:
        """Whether changes that come late do not count as the newest."""
        ordered = any(SEQUENCE in rule.get("table-options", {}) for rule in self.rules.values())
        return ordered or "history" in {self.sink["deletes"], *(route.get("deletes") for route in self.routes)}

    def sections(self) -> dict[str, Any]:
        sections: dict[str, Any] = {
            "sink": self.sink,
            "transform": [{"source-table": f"shop_[01].{table}", **rule} for table, rule in self.rules.items() if rule],
            "expect": self.expect,
            "errors": {"bad-record": "dead-letter", "dead-letter": {"max-per-batch": 100000, "max-share": "100%"}},
        }
        if self.isolates:
            sections["errors"]["isolate"] = True
        if self.defers:
            sections["pipeline"] = {"trigger": "1s"}
        return sections | ({"route": self.routes} if self.routes else {})

    def _options(self) -> dict[str, str]:
        draw = self.draw
        options = {"bucket": draw.choice(("-1", "-1", "1", "2", "3"))}
        producer = draw.choice(PRODUCERS)
        if producer != "none":
            options["changelog-producer"] = producer
        if draw.random() < 0.15:
            options |= {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": draw.choice(("1", "2", "4"))}
        return options | {key: draw.choice(values) for key, values in SHAPES.items() if draw.random() < 0.12}

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
        elif keyed and not history:
            self._draw_order(rule)
        self.rules[table] = rule
        self._draw_expectations(table)

    def _draw_engine(self, rule: dict[str, Any]) -> None:
        producer = self.sink["table-options"].get("changelog-producer")
        engines = ["aggregation", "aggregation", "first-row", "partial-update"]
        if "compaction" in self.sink:  # its rows are visible once they are compacted
            engines.remove("first-row")
        engine = self.draw.choice(engines)
        options = {"merge-engine": engine}
        if engine == "aggregation":
            rule |= {"projection": SUMMED, "primary-keys": ["p"]}
            rule.pop("mask", None)
            options["fields.n.aggregate-function"] = "sum"
        else:
            options["ignore-delete"] = "true"
        if engine == "first-row" and producer in {"input", "full-compaction"}:
            options["changelog-producer"] = "lookup"
        rule["table-options"] = options

    def _draw_order(self, rule: dict[str, Any]) -> None:
        """Let a column order the rows, or deletion vectors mark those that are replaced."""
        draw, options = self.draw, dict[str, str]()
        crosses = "partition-keys" in rule and "p" not in rule["primary-keys"]
        producer = self.sink["table-options"].get("changelog-producer", "none")
        if draw.random() < 0.15 and not crosses:
            options[SEQUENCE] = "s"
        # With deletion vectors, rows are visible once they are compacted.
        marks = producer in {"none", "lookup"} and not crosses and "compaction" not in self.sink
        if marks and draw.random() < 0.15:
            options["deletion-vectors.enabled"] = "true"
        if options:
            rule["table-options"] = options

    def _draw_expectations(self, table: str) -> None:
        draw = self.draw
        for _ in range(draw.choice((0, 0, 0, 1, 2))):
            summed = self.rules[table].get("projection") == SUMMED
            conditions = [text for text in EXPECTED if "n" in text.split()[0]] if summed else list(EXPECTED)
            # An aggregate refuses to undo rows that a rule may have left out.
            action = "warn" if summed else draw.choice(("warn", "drop", "dead-letter"))
            condition = draw.choice(conditions)
            self.expect.append({"source-table": f"shop_[01].{table}", "condition": condition, "action": action})

    def _merge_tables(self) -> None:
        """Write all source tables to one target table, by the rules of the first."""
        first = next(iter(self.keys))
        for table in self.keys:
            self.keys[table], self.rules[table] = self.keys[first], self.rules[first]
            name = f"shop_[01].{table}"
            self.routes.append({"source-table": name, "sink-table": f"{DATABASE}.merged"})
        # A rule for an aggregate only warns, and a rule for other rows may need columns that it lacks.
        self.expect = [expectation for expectation in self.expect if expectation["source-table"].endswith(f".{first}")]

    def _draw_deletes(self) -> None:
        """Let tables keep their deleted rows in another way than the sink says."""
        draw, common = self.draw_deletes, dict[str, str]()
        for table, keys in self.keys.items():
            rule = self.rules[table]
            options, partitions = rule.get("table-options", {}), rule.get("partition-keys", ())
            ways = ["hard"]
            if keys and "merge-engine" not in options:
                ways.append("soft")
                # A version has its place by the key and its start, and no other order.
                if not options and set(partitions) <= set(rule.get("primary-keys", ())):
                    ways.append("history")
            if self.merges:  # their rows have one table
                ways = [common.setdefault("deletes", draw.choice(ways))]
            elif draw.random() < 0.3:
                continue
            self._route(table)["deletes"] = draw.choice(ways)

    def _draw_lookups(self) -> None:
        """Let tables get columns of a dimension. They need no old rows as they were: a lookup finds today's."""
        draw = self.draw_lookups
        for table, rule in self.rules.items():
            options = rule.get("table-options", {})
            if options.get("merge-engine") == "aggregation" or "lookup" in rule or draw.random() < 0.3:
                continue
            # Batches of a table that was parked may wait for rows at another time than those of other tables.
            rule["lookup"] = [DimensionPlot(draw, PARTS).lookup(may_wait=not self.isolates)]
            if draw.random() < 0.3:
                rule["filter"] = draw.choice(tuple(LOOKED_UP))
            if draw.random() < 0.2:
                action, condition = draw.choice(("warn", "drop", "dead-letter")), draw.choice(tuple(LOOKED_UP))
                self.expect.append({"source-table": f"shop_[01].{table}", "condition": condition, "action": action})
            if self._may_cross_by_lookup(table) and draw.random() < 0.4:
                rule |= {"partition-keys": ["w"], "primary-keys": self.keys[table]}
            if (self.sink["table-options"] | options).get("changelog-producer") == "input":
                rule["table-options"] = {**options, "changelog-producer": "lookup"}

    def _draw_stop(self) -> None:
        """Let a table have one rule, which stops the pipeline or parks the table."""
        table = self.draw_stops.choice(tuple(self.keys))
        if self.merges or self.rules[table].get("projection") == SUMMED:
            return
        name = f"shop_[01].{table}"
        self.expect = [expectation for expectation in self.expect if expectation["source-table"] != name]
        self.expect.append({"source-table": name, "condition": "coalesce(v, '') <> 'bad'", "action": "fail"})

    def _draw_marked_parts(self) -> None:
        """Let tables of partial updates mark deleted rows instead of ignoring deletes."""
        for table, rule in self.rules.items():
            options = rule.get("table-options", {})
            if options.get("merge-engine") == "partial-update" and self.draw_stops.random() < 0.5:
                self._route(table)["deletes"] = "soft"
                rule["table-options"] = {name: value for name, value in options.items() if name != "ignore-delete"}

    def _may_cross_by_lookup(self, table: str) -> bool:
        """Return whether rows of a table can move to another partition because the dimension has changed."""
        rule, ways = self.rules[table], [self.sink["deletes"], *(route.get("deletes") for route in self.routes)]
        is_plain = not {"partition-keys", "table-options", "projection"} & rule.keys() and "history" not in ways
        return is_plain and bool(self.keys[table]) and self.sink["table-options"]["bucket"] == "-1"

    def _route(self, table: str) -> dict[str, Any]:
        source = f"shop_[01].{table}"
        found = next((route for route in self.routes if route["source-table"] == source), None)
        if found is None:
            found = {"source-table": source, "sink-table": f"{DATABASE}.{table}"}
            self.routes.append(found)
        return found

    def _draw_freshness(self) -> None:
        """Let tables be committed more seldom than others."""
        draw = self.draw
        self.sink["table-options"].pop("commit.force-create-snapshot", None)
        for table in self.keys:
            if draw.random() < 0.6:
                route = {"source-table": f"shop_[01].{table}", "sink-table": f"{DATABASE}.{table}"}
                self.routes.append({**route, "freshness": draw.choice(("2s", "30s", "10m"))})
