"""A Kafka topic of canal changes to tables: ours, then Flink with Java Paimon, on one machine in one sitting.

    python -m benchmarks.kafka_job EVENTS [--changelog none|input|lookup] [--bucket 4] [--write-only]
        [--only ours|flink] [--batch ROWS] [--tables 4] [--partitions 4] [--flag=--name=value ...]
        [--again] [--trigger 120s --over 120]

Both get the same flags of `kafka-sync-database`. What they leave is compared row by row with what DuckDB folds from
the messages. CPU seconds are those of all processes of the job from its start to its end, start-up included. With
`--batch` ours takes at most so many rows a batch, and the cost of the batches after the first is printed for each kind
of process: steady state, apart from the start. Tables beyond the shop's four are shards of these, by key.

`--again` starts ours once more over the tables it has made, for a few events: what it takes from the start to the first
commit. With `--trigger` the events come at an even rate, `--over` so many seconds, to a job that has that trigger.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from benchmarks.batch_costs import BatchCosts
from benchmarks.figures import Figure, record
from benchmarks.peers import flink
from benchmarks.processes import Cost, cost_of, record_costs, used
from benchmarks.shop.columns import TABLES
from benchmarks.shop.judge import check
from benchmarks.shop.stream import PARTS, write
from tests.servers import launch

TOPIC = "shop"
KEY = re.compile(rb'"id":"([0-9]+)"')
SETTLED_SECONDS = 2.0
FEW = 4_000
PEAK_GOAL = 1.2  # GiB, for a million events
STEADY_GOAL = 6.0  # us of CPU an event after the first batch, with default compaction
SENT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Work:
    """A topic full of changes, and how tables are to be made of it."""

    bootstrap: str
    messages: Path
    events: int
    table_options: Sequence[str]
    own_flags: Sequence[str] = ()
    partitions: int = PARTS
    shards: int = 1

    def __str__(self) -> str:
        return f"{self.events:,} canal events from Kafka into {len(TABLES) * self.shards} tables"

    def flags(self, warehouse: Path, group: str) -> list[str]:
        source = {
            "properties.bootstrap.servers": self.bootstrap,
            "properties.group.id": group,
            "topic": TOPIC,
            "value.format": "canal-json",
            "scan.startup.mode": "earliest-offset",
        }
        flags = ["--warehouse", str(warehouse), "--database", "shop"]
        flags += [word for key, value in source.items() for word in ("--kafka_conf", f"{key}={value}")]
        return flags + [word for option in self.table_options for word in ("--table_conf", option)]


def make_topic(work: Work) -> None:
    # The topic must be there first: a producer that makes it by itself may reorder what it sent meanwhile.
    admin = AdminClient({"bootstrap.servers": work.bootstrap})
    admin.create_topics([NewTopic(TOPIC, work.partitions, 1)])[TOPIC].result()


def load(work: Work, paths: Sequence[Path], most: int | None = None, seconds: float = 0.0) -> None:
    """All lines, or the first of each file, at once or at an even rate."""
    settings = {"compression.type": "lz4", "linger.ms": 50, "queue.buffering.max.kbytes": 200_000}
    producer = Producer({"bootstrap.servers": work.bootstrap, **settings})
    began, each = time.monotonic(), seconds / work.events
    for number, (part, line) in enumerate(lines_of(paths, most, side_by_side=bool(seconds))):
        producer.produce(TOPIC, sharded(line.rstrip(b"\n"), work.shards), partition=part % work.partitions)
        if number % 10_000 == 0:
            flushed(producer)
        if each and number % 100 == 0:
            producer.poll(0)
            time.sleep(max(0.0, began + number * each - time.monotonic()))
    flushed(producer)


def flushed(producer: Producer) -> None:
    if left := producer.flush(SENT_SECONDS):
        raise TimeoutError(f"{left} messages were not taken by the broker within {SENT_SECONDS} s")


def lines_of(paths: Sequence[Path], most: int | None, *, side_by_side: bool) -> Iterator[tuple[int, bytes]]:
    """Lines with the number of their file; side by side, so that no file is done long before the others."""
    with ExitStack() as opened:
        files = [islice(opened.enter_context(path.open("rb")), most) for path in paths]
        if side_by_side:
            for lines in zip_longest(*files):
                yield from ((part, line) for part, line in enumerate(lines) if line is not None)
        else:
            for part, file in enumerate(files):
                yield from ((part, line) for line in file)


def sharded(message: bytes, shards: int) -> bytes:
    """The message as one of its table's shard, which the key names."""
    found = KEY.search(message)
    if shards == 1 or found is None:
        return message
    head, table, tail = message.rpartition(b'","ts":')
    return head + b"_%02d" % (int(found[1]) % shards) + table + tail


def command_of(work: Work, home: Path) -> list[str]:
    action = [sys.executable, "-m", "penstock.pipelines.commands.main", "kafka-sync-database"]
    return [*action, *work.flags(home, "ours"), *work.own_flags]


def run_ours(work: Work, home: Path) -> Cost:
    costs = BatchCosts(home)
    cost = cost_of([*command_of(work, home), "--until-caught-up"], home / "log", look=costs.look)
    print(*costs.lines(), f"{replays(home / 'log')} tables read again", sep="\n")
    costs.record_steady(str(work), None if "write-only=true" in work.table_options else STEADY_GOAL)
    return cost


def run_live(work: Work, home: Path, paths: Sequence[Path], trigger: str, seconds: float) -> Cost:
    """While the events come. It is ended when its group has all offsets."""
    costs, sender = BatchCosts(home), threading.Thread(target=load, args=(work, paths, None, seconds))
    ends: list[Callable[[], bool]] = []

    def over() -> bool:
        if sender.is_alive():
            return False
        if not ends:
            ends.append(committed(work, "ours"))
        return ends[0]()

    sender.start()
    command = [*command_of(work, home), "--trigger", trigger]
    cost = cost_of(command, home / "log", until=over, look=costs.look)
    print(f"trigger {trigger}, events over {seconds:g} s", *costs.lines(), sep="\n")
    return cost


@dataclass(slots=True)
class FirstCommit:
    """When a job has made its first snapshot, and what it had used until then."""

    home: Path
    began: float = field(default_factory=time.monotonic)
    before: int = -1
    found: tuple[float, float] | None = None
    used: dict[int, float] = field(default_factory=dict)

    def look(self, session: int) -> None:
        self.used |= used(session)
        snapshots = sum(1 for _ in self.home.glob("shop.db/*/snapshot/snapshot-*"))
        if self.before < 0:
            self.before = snapshots
        if self.found is None and snapshots > self.before:
            self.found = time.monotonic() - self.began, sum(self.used.values())

    def __str__(self) -> str:
        wall, cpu = self.found or (float("nan"), float("nan"))
        return f"start to first commit, tables known: {wall:.1f} s, {cpu:.1f} CPU-s (goals 8 s, 13 CPU-s)"


def run_again(work: Work, home: Path, paths: Sequence[Path]) -> None:
    load(work, paths, FEW // len(paths))
    first = FirstCommit(home)
    cost = cost_of([*command_of(work, home), "--until-caught-up"], home / "log-again", look=first.look)
    print(first, f"its whole run {cost}", sep="; ", flush=True)
    if first.found is not None:
        wall, cpu = first.found
        record(Figure("start to first commit, tables known: wall", wall, "s", goal=5.0, less=True))
        record(Figure("start to first commit, tables known: CPU", cpu, "CPU-s", less=True))
    record_costs("the whole of that run", cost, None, "")


def replays(log: Path) -> int:
    """How often a table that was there already had to change in the middle of a batch."""
    return sum("event=schema_evolved" in line and "from=none" not in line for line in log.open())


def run_flink(work: Work, home: Path) -> Cost:
    """Flink does not end by itself: it is stopped when its group has committed all offsets, which checkpoints do."""
    flink.prepare()
    command = flink.command("kafka_sync_database", work.flags(home, "flink"))
    return cost_of(command, home / "log", until=committed(work, "flink"))


def committed(work: Work, group: str) -> Callable[[], bool]:
    """Return whether a group committed up to the ends of the topic, and the tables had time for their commits."""
    client = AdminClient({"bootstrap.servers": work.bootstrap})
    consumer = Consumer({"bootstrap.servers": work.bootstrap, "group.id": "benchmark"})
    places = [TopicPartition(TOPIC, part) for part in range(work.partitions)]
    ends = [consumer.get_watermark_offsets(place)[1] for place in places]
    met: list[float] = []

    def look() -> bool:
        request = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
        reached = [place.offset for place in request[group].result().topic_partitions]
        if reached == ends:
            met.append(time.monotonic())
        return bool(met) and time.monotonic() - met[0] > SETTLED_SECONDS

    return look


RUNS: dict[str, Callable[[Work, Path], Cost]] = {"ours": run_ours, "flink": run_flink}


def report(name: str, work: Work, home: Path, cost: Cost) -> str:
    rows = 0
    for table in TABLES.values():
        names = [table.name] if work.shards == 1 else [f"{table.name}_{shard:02}" for shard in range(work.shards)]
        stored = pa.concat_tables([penstock.open_table(f"{home}/shop.db/{name}").scan().to_arrow() for name in names])
        rows += check(work.messages, table, stored)
    size = sum(path.stat().st_size for path in (home / "shop.db").rglob("*") if path.is_file()) >> 20
    each = cost.cpu / work.events * 1e6
    figures = f"{each:.1f} CPU-us an event, {work.events / cost.wall:,.0f} events/s, {size} MB, {rows:,} rows right"
    return f"{name:6} {cost}, {figures}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_job")
    parser.add_argument("events", type=int)
    parser.add_argument("--changelog", default="none")
    parser.add_argument("--bucket", default="4")
    parser.add_argument("--write-only", action="store_true")
    parser.add_argument("--only", choices=list(RUNS))
    parser.add_argument("--batch", type=int, help="rows a batch, ours")
    parser.add_argument(
        "--flag", action="append", default=[], help="a flag of ours, for instance --flag=--compaction=background"
    )
    parser.add_argument("--tables", type=int, default=len(TABLES), help="a multiple of four")
    parser.add_argument("--partitions", type=int, default=PARTS)
    parser.add_argument("--again", action="store_true", help="from the start to the first commit, tables known")
    parser.add_argument("--trigger", help="of a job to which events come at an even rate, ours")
    parser.add_argument("--over", type=float, default=120.0, help="seconds in which they come")
    parser.add_argument("--keep", type=Path, help="a folder for messages, tables and logs")
    return parser.parse_args()


def main() -> None:
    parsed = arguments()
    options = [f"bucket={parsed.bucket}", f"changelog-producer={parsed.changelog}", "file.compression=zstd"]
    options += ["write-only=true"] * parsed.write_only
    with tempfile.TemporaryDirectory() as scratch:
        home = parsed.keep or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        messages = home / f"messages-{parsed.events}"
        paths = write(messages, parsed.events)
        with launch.running("kafka", Path(scratch) / "broker") as port:
            own = [*parsed.flag, *([f"--max-batch-rows={parsed.batch}"] if parsed.batch else [])]
            shards = parsed.tables // len(TABLES)
            work = Work(f"127.0.0.1:{port}", messages, parsed.events, options, own, parsed.partitions, shards)
            make_topic(work)
            print(f"{parsed.events:,} events, {' '.join(options)}", flush=True)
            if parsed.trigger:
                target = Path(tempfile.mkdtemp(prefix="live", dir=home))
                cost = run_live(work, target, paths, parsed.trigger, parsed.over)
                print(report("ours", work, target, cost), flush=True)
                return
            load(work, paths)
            costs = {}
            for name in [parsed.only] if parsed.only else list(RUNS):
                target = Path(tempfile.mkdtemp(prefix=name, dir=home))
                costs[name] = RUNS[name](work, target)
                print(report(name, work, target, costs[name]), flush=True)
                if parsed.again and name == "ours":
                    run_again(work, target, paths)
            if "ours" in costs:
                peak = PEAK_GOAL if parsed.events >= 1_000_000 else None
                peer = "Flink 1.20.1, Paimon 1.3.1"
                record_costs(str(work), costs["ours"], costs.get("flink"), peer, peak_goal=peak)


if __name__ == "__main__":
    main()
