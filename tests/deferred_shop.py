"""A pipeline over topics in memory whose tables have a freshness, batch by batch, with a clock that tests set.

The plan is that of the Kafka source; batches are read, written and committed in this process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.formats.change import Messages
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import Offsets, Range
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.job import build
from penstock.pipelines.job.job import Job, TablesAtStart
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.meta.snapshot import Snapshot

Place = tuple[str, int]
START, MINUTE = 1_700_000_000_000, 60_000
SLOW = {"source-table": "shop.slow.*", "sink-table": "ods.{table}", "freshness": "10m"}


@dataclass
class Topics:
    """Records by partition. `first` is the first record that each still has, `ids` are the ids of topics."""

    records: dict[Place, list[bytes]] = field(default_factory=lambda: {("t", 0): []})
    first: dict[Place, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    read: list[tuple[str, int, int]] = field(default_factory=list)

    def put(self, *values: str | bytes, partition: int = 0, topic: str = "t") -> None:
        raw = [value.encode() if isinstance(value, str) else value for value in values]
        self.records.setdefault((topic, partition), []).extend(raw)

    def topics_matching(self, pattern: str) -> list[str]:
        return sorted({topic for topic, _ in self.records})

    def partitions(self, topics: Iterable[str]) -> tuple[list[Place], dict[str, str]]:
        names = set(topics)
        return sorted(record for record in self.records if record[0] in names), {
            name: self.ids.get(name, "1") for name in names
        }

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        known = self.partitions(topics)[1]
        return {topic: known.get(topic) for topic in topics}

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return {place: self.first.get(place, 0) for place in places}

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        return {place: len(self.records[place]) for place in places}

    def ends(self, places: Iterable[Place]) -> tuple[dict[Place, int], dict[Place, int]]:
        return self.latest(places), {}

    def bounds(self, places: Iterable[Place]) -> tuple[dict[Place, int], dict[Place, int], dict[Place, int]]:
        wanted = list(places)
        return self.earliest(wanted), self.latest(wanted), {}

    def written(self, places: Iterable[Place]) -> dict[Place, int]:
        return self.latest(places)


class TopicsSource(KafkaSource):
    def __init__(self, settings: KafkaSettings, topics: Topics) -> None:
        super().__init__(settings)
        self._known = topics  # type: ignore[assignment]

    def close(self) -> None:
        """Keep the topics, which cannot be asked for again."""

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        topics: Any = self._known
        topic, _, number = range_.place.rpartition("/")
        topics.read.append((range_.place, range_.start, range_.end))
        values = topics.records[topic, int(number)][range_.start : range_.end]
        offsets = np.arange(range_.start, range_.end, dtype=np.int64)
        size = sum(map(len, values))
        yield FetchedMessages(topic, int(number), Messages(values=values, offsets=offsets), size)


@dataclass
class DeferredShop:
    """The pipeline. `offsets` are the ends of its planned batches, as Spark's checkpoint has them."""

    folder: Path
    patch: pytest.MonkeyPatch
    topics: Topics = field(default_factory=Topics)
    now: int = START
    offsets: list[Offsets] = field(default_factory=list)
    spec: PipelineSpec = field(init=False)
    driver: BatchDriver = field(init=False)

    def __post_init__(self) -> None:
        self.patch.setattr(CatalogSettings, "now_millis", lambda settings: self.now)

    def start(
        self, *routes: Mapping[str, str], checkpoint: str = "checkpoint", pattern: bool = False, **sections: Any
    ) -> DeferredShop:
        """Begin a run. With a checkpoint of another name, it reads from the start."""
        topic = {"topic-pattern": ".*"} if pattern else {"topic": "t"}
        source = {"type": "kafka", "properties": {"bootstrap.servers": "nowhere:1"}, "value.format": "canal-json"}
        sink = {"catalog": {"warehouse": f"{self.folder}/warehouse"}, "database": "ods", "no-primary-key": "append"}
        pipeline = {"name": "shop", "checkpoint": f"{self.folder}/{checkpoint}"} | sections.pop("pipeline", {})
        self.spec = parsed(
            {
                "source": {**source, **topic},
                "pipeline": pipeline,
                "sink": {**sink, **sections.pop("sink", {})},
                "route": list(routes),
                **sections,
            }
        )
        settings = KafkaSettings(
            {},
            () if pattern else ("t",),
            ".*" if pattern else None,
            StartOffsets("earliest-offset"),
            accept_gap=self.spec.pipeline.accept_gap,
        )
        job: Job = build.job(self.spec)
        filled = build.filled_tables(self.spec, job.warehouse)
        tables = TablesAtStart(build.known_tables(self.spec, job.warehouse), filled=filled)
        topics = DecodedSource(TopicsSource(settings, self.topics), "canal-json")
        job = replace(
            job, source=build.with_freshness(self.spec, topics, job.warehouse), tables=tables, first_look=None
        )
        (self.folder / checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        self.checkpoint = checkpoint
        self.driver = job.driver(self.folder / checkpoint, 2, 2, run_tasks)
        self.driver.checkpoint = checkpoint
        if not self.planned.exists():
            self.offsets = [self.driver.reader.initial_offsets()]
        return self

    @property
    def planned(self) -> Path:
        return self.folder / self.checkpoint / "offsets" / "0"

    def put_both(self, *numbers: int) -> None:
        """Add a record of the table without a freshness and one of the table with it, for each number."""
        for number in numbers:
            self.topics.put(row("fast", number), row("slow", number))

    def plan(self, until: Offsets | None = None) -> bool:
        """Plan a batch, as Spark stores it. Return whether there is one."""
        reader, start = self.driver.reader, self.offsets[-1]
        end = json.loads(json.dumps(reader.latest_offsets(start, reader.limit, until)))
        if end == start:
            return False
        number = len(self.offsets) - 1
        (self.planned.parent / str(number)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
        self.offsets.append(end)
        return True

    def take(self) -> None:
        """Take the batch that was planned last, perhaps again."""
        reader, number = self.driver.reader, len(self.offsets) - 2
        inputs = reader.inputs(self.offsets[-2], self.offsets[-1])
        self.driver.take(number, run_tasks(reader, number, inputs))

    def batch(self, until: Offsets | None = None) -> bool:
        self.topics.read.clear()
        if not self.plan(until):
            return False
        self.take()
        return True

    def drain(self) -> int:
        """Run until caught up, and return the number of batches."""
        until, count = self.driver.reader.available(), 0
        while self.batch(until):
            count += 1
            assert count < 100, "the run does not end"
        return count

    def pass_time(self, millis: int) -> None:
        self.now += millis

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (
            Table(self.driver.reader.warehouse.opened(f"ods.{table}")).scan().to_arrow().to_pylist()
        )
        return rows

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(table))

    def snapshots(self, table: str) -> list[Snapshot]:
        return list(self.driver.reader.warehouse.opened(f"ods.{table}").snapshots.newest_first())


def row(table: str, number: int, *, time: int = 0, **columns: object) -> str:
    """A row of a table without a key, so that a row that is written twice is there twice."""
    types = {"id": "bigint", **dict.fromkeys(columns, "varchar(20)")}
    data = {"id": str(number), **columns}
    message = {
        "type": "INSERT",
        "database": "shop",
        "table": table,
        "isDdl": False,
        "pkNames": None,
        "mysqlType": types,
    }
    return json.dumps(message | {"data": [data], "old": None, "es": START + time, "ts": START + time})
