"""A random pipeline from topics: its format, its target tables, and how both are configured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from tests.integration.kafka.expected_rows import ExpectedRows
from tests.integration.kafka.random_avro import AvroMessages
from tests.integration.kafka.random_messages import FORMATS, Format, debezium_declared
from tests.integration.kafka.random_records import TABLES, Record
from tests.servers.registry import Registry

LETTERS = "ods.__penstock_dead_letters"
_KINDS: dict[str, int] = {"upsert": 6, "append": 6, "partial": 1, "first": 1, "sum": 1, "soft": 1, "history": 1}
_BUCKETS = ("1", "2", "-1", "-2")
_LIMITS = (None, 1, 3, 7, 20)
_MANY = {"max-per-batch": 100_000, "max-share": 1.0}


@dataclass
class RandomPipeline:
    draw: random.Random
    folder: Path
    prefix: str  # of the topics
    properties: dict[str, str]
    registry: Registry
    start_millis: int = 0
    names: int = 0  # how often the target tables were renamed
    excluded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        draw = self.draw
        avro = AvroMessages(self.registry)
        with_registry = Format("debezium-avro", avro.write, declares=True, key=avro.key, malformed=avro.malformed)
        self.format = draw.choice((*FORMATS, with_registry))
        self.one_table = self.format.name == "json"
        kinds = {kind: weight for kind, weight in _KINDS.items() if self.format.declares or kind != "sum"}
        if not self.format.has_deletes:
            kinds = {kind: weight for kind, weight in kinds.items() if kind in {"upsert", "append", "first"}}
        self.kind = draw.choices(list(kinds), list(kinds.values()))[0]
        self.options = self._some_options()
        self.limit = draw.choice((None, *_LIMITS))
        self.pattern = draw.random() < 0.5
        self.startup = draw.choice(("earliest-offset", "earliest-offset", "latest-offset", "timestamp"))
        if self.kind == "sum":
            self.startup = "earliest-offset"  # an old row alone is no row
        self.on_bad = draw.choice(("dead-letter", "dead-letter", "skip", "fail"))
        self.isolate = draw.random() < 0.3
        self.filters = draw.random() < 0.3 and self.kind != "history"
        self.one_route = draw.random() < 0.4 and not self.one_table
        self.freshness = None if self.one_table else draw.choice((None, None, "100ms", "1h"))
        self.as_spark = draw.random() < 0.3 or self.options["bucket"] == "-2"  # postponed buckets need Spark
        # The rows of a sum are compared by their columns that are numbers.
        self.computes = draw.random() < 0.3 and self.kind != "sum"
        share = 0.8 if self.kind == "append" else 0.3 if self.kind == "upsert" else 0.0
        self.has_places = draw.random() < share
        self.small_pieces = draw.random() < 0.5
        self.reads_uncommitted = draw.random() < 0.2
        # Only the newest record of a key counts. Compaction deletes records of aborted transactions.
        newest = self.kind == "upsert" and self.format.has_deletes and not (self.filters or self.has_places)
        self.compacts = newest and not self.reads_uncommitted and draw.random() < 0.5

    def __str__(self) -> str:
        left_out = {"draw", "folder", "properties", "registry", "format"}
        return f"{self.format.name} { ({name: value for name, value in vars(self).items() if name not in left_out}) }"

    def _some_options(self) -> dict[str, str]:
        draw = self.draw
        if self.kind == "append":
            return draw.choice(({"bucket": "-1"}, {"bucket": "2", "bucket-key": "id"}))
        options = {"bucket": draw.choice(_BUCKETS if self.kind == "upsert" else _BUCKETS[:3])}
        match self.kind:
            case "upsert" if options["bucket"] != "-2":
                producer = draw.choice(("none", "input", "lookup", "full-compaction"))
                options["changelog-producer"] = producer
                if producer in {"none", "lookup"} and draw.random() < 0.3:
                    options["deletion-vectors.enabled"] = "true"
            case "partial":
                options |= {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
                options["changelog-producer"] = draw.choice(("none", "lookup"))
            case "first":
                options |= {"merge-engine": "first-row", "ignore-delete": "true"}
                options["changelog-producer"] = draw.choice(("none", "lookup"))
            case "sum":
                options |= {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
            case "soft" | "history":
                options["changelog-producer"] = draw.choice(("none", "input", "lookup"))
        if self.kind == "upsert" and draw.random() < 0.2 and self.format.declares:
            options["sequence.field"] = "s"
        if draw.random() < 0.3 and options["bucket"] != "-2":
            options["num-sorted-run.compaction-trigger"] = "2"
        return options

    @property
    def full_deletes(self) -> bool:
        """Return whether all deletes must have whole rows: another one cannot be filtered, ordered or undone."""
        by_key = self.kind in {"upsert", "partial", "soft", "history"} and "sequence.field" not in self.options
        return not by_key or self.filters or not self.format.name.startswith("debezium")

    @property
    def expected(self) -> ExpectedRows:
        return ExpectedRows(self.kind, self.filters, self.format.has_deletes, self.has_places, self.computes)

    @property
    def is_traced(self) -> bool:
        """Return whether rows show which record they are from, so that it need not be known what was read."""
        return self.kind == "append" and self.has_places

    def target(self, table: str) -> str | None:
        """Return the target of a source table by the current settings, None if the table is excluded."""
        if table in self.excluded:
            return None
        if self.one_table:
            return "ods.one"
        return f"ods.x{self.names}_{'all' if self.one_route and table in {'t0', 't1'} else table}"

    def is_bad(self, record: Record) -> bool:
        """Return whether a record counts as bad: some values are read although their table is excluded."""
        is_read = record.fate is not None or self.format.write is debezium_declared
        return record.what == "malformed" or (record.what == "bad value" and is_read)

    def change(self) -> str:
        """Change a setting, and return which."""
        way = 1.0 if self.one_table or self.kind == "sum" else self.draw.random()
        if way < 0.5:
            self.excluded = set(self.draw.sample(TABLES, self.draw.randint(0, 2)))
            return f"excluded {sorted(self.excluded)}"
        if way < 0.6:
            self.names += 1
            return f"names {self.names}"
        if way < 0.7:
            self.freshness = self.draw.choice((None, "100ms", "1h"))
            return f"freshness {self.freshness}"
        self.limit = self.draw.choice(_LIMITS)
        return f"limit {self.limit}"

    def spec(self, topics: Sequence[str], *, until: str = "caught-up", **more: Any) -> PipelineSpec:
        """Return the pipeline as it is started now."""
        startup: dict[str, Any] = {"mode": self.startup}
        if self.startup == "timestamp":
            startup["timestamp-millis"] = self.start_millis
        properties = self.properties | ({"isolation.level": "read_uncommitted"} if self.reads_uncommitted else {})
        source = {"type": "kafka", "properties": properties, "startup": startup, "value.format": self.format.name}
        if self.format.name == "debezium-avro":
            source["schema-registry"] = {"url": self.registry.url}
        source |= {"topic-pattern": f"{self.prefix}-.*"} if self.pattern else {"topic": topics}
        pipeline = {"name": "p", "checkpoint": f"{self.folder}/checkpoint", "until": until, **more}
        pipeline |= {"trigger": "50ms" if until == "caught-up" or self.freshness else "0s"}
        pipeline |= {"max-batch": {"rows": self.limit}} if self.limit else {}
        errors = {"bad-record": self.on_bad, "isolate": self.isolate, "dead-letter": _MANY, "skip": _MANY}
        description = {"source": source, "pipeline": pipeline, "sink": self._sink(), "errors": errors}
        if self.excluded:
            description["selection"] = {"excluding-tables": "|".join(sorted(self.excluded))}
        return parsed(description | self._rules())

    def _sink(self) -> dict[str, Any]:
        catalog = {"warehouse": f"{self.folder}/warehouse"}
        sink: dict[str, Any] = {"catalog": catalog, "database": "ods", "table-options": self.options}
        if self.kind in {"soft", "history"}:
            sink["deletes"] = self.kind
        if self.kind == "append":
            sink |= {"sync-primary-keys-from-source-schema": False, "no-primary-key": "append"}
        elif self.format.name in {"json", "debezium-json"}:
            sink["primary-keys"] = ["id"]
        if self.computes:
            sink["computed-columns"] = ["upper_v=upper(v)", "rest_v=substring(v,1)"]
        if self.has_places:
            sink["metadata-columns"] = {"topic": "_topic", "partition": "_partition", "offset": "_offset"}
        return sink | ({"table": "one"} if self.one_table else {"naming": {"table-prefix": f"x{self.names}_"}})

    def _rules(self) -> dict[str, Any]:
        rules, routes = dict[str, Any](), list[dict[str, str]]()
        if self.one_route:
            routes.append({"source-table": "shop.t[01]", "sink-table": f"ods.x{self.names}_all"})
        if self.freshness:
            slow = {"source-table": "shop.t2", "sink-table": f"ods.x{self.names}_t2", "freshness": self.freshness}
            routes.append(slow)
        if routes:
            rules["route"] = routes
        if self.filters:
            condition = "n < 50" if self.format.declares else "cast(n as int) < 50"
            rules["transform"] = [{"source-table": ".*" if self.one_table else ".*\\..*", "filter": condition}]
        return rules
