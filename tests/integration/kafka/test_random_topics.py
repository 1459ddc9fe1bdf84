"""Random records in topics, and runs of a pipeline between them: tables, dead letters and counts are as they must be.

Topics are created, extended, emptied, deleted and created again. Runs are killed, calls fail, and the settings change.
What a pipeline cannot have must be refused once, and only that. PENSTOCK_CHAOS_ROUNDS=100 plays that many seeds.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from penstock.errors import PenstockError, PositionLost
from penstock.ingest.kafka import read
from penstock.ingest.kafka import source as kafka_source
from penstock.ingest.source import piece_size
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import note_as_spark_does, run
from tests.integration.failing_calls import Killed
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.random_pipeline import LETTERS, RandomPipeline
from tests.integration.kafka.random_records import ABORTED, FUTURE, LOST, SKIPPED, Record
from tests.integration.kafka.random_topics import RandomTopics
from tests.integration.kafka.random_troubles import Troubles
from tests.integration.play_report import history_shown
from tests.invariants import check_invariants
from tests.servers.registry import Registry, running
from tests.without_spark import run_here

pytestmark = pytest.mark.kafka
FIRST = int(os.environ.get("PENSTOCK_CHAOS_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "4")))
UNKNOWN = "unknown"  # the record may have been read or not: its rows do not show it
NOT_READ = {FUTURE, LOST, SKIPPED, ABORTED, UNKNOWN}


@dataclass
class Play:
    """Random records, and runs of a random pipeline.

    `accepted` are records, by number, that a table lacks by an accepted gap. `lost`: records that were not read are
    gone. `renewed`: a topic was created again, which is refused even if all of it was read. `uncounted`: it is not
    known how many records were read.
    """

    pipeline: RandomPipeline
    topics: RandomTopics
    reports: dict[int, BatchReport] = field(default_factory=dict)
    accepted: set[tuple[int, str]] = field(default_factory=set)
    lost: bool = False
    renewed: bool = False
    was_excluded: bool = False
    uncounted: bool = False

    @classmethod
    def of(cls, broker: Broker, registry: Registry, folder: Path, draw: random.Random, prefix: str) -> Play:
        pipeline = RandomPipeline(draw, folder, prefix, broker.properties, registry)
        topics = RandomTopics(
            broker,
            draw,
            pipeline.format,
            prefix,
            [f"-- {pipeline}"],
            has_keys=pipeline.kind != "append",
            full_deletes=pipeline.full_deletes,
            bad=pipeline.on_bad != "fail",
            nulls=pipeline.kind != "sum",
            reads_uncommitted=pipeline.reads_uncommitted,
            compacts=pipeline.compacts,
        )
        return cls(pipeline, topics, uncounted=pipeline.compacts)

    def tell(self, what: str) -> None:
        self.topics.say(f"-- {what}")

    @property
    def draw(self) -> random.Random:
        return self.pipeline.draw

    @property
    def checkpoint(self) -> CheckpointFolder:
        return CheckpointFolder(f"{self.pipeline.folder}/checkpoint")

    @property
    def warehouse(self) -> CatalogSettings:
        return CatalogSettings.of(f"{self.pipeline.folder}/warehouse", {})

    # The play

    def run(self) -> None:
        self.start()
        for _ in range(self.draw.randint(2, 6)):
            self.change_topics()
            self.topics.act(self.draw.randint(1, 10))
            for _ in range(self.draw.choice((0, 0, 1, 2))):
                self.run_with_trouble()
                self.topics.act(self.draw.randint(0, 3))
                # Before its first batch is planned, a pipeline can lose nothing.
                has_begun = self.checkpoint.batches.last_planned is not None
                if self.pipeline.is_traced and has_begun and self.draw.random() < 0.4:
                    self.change_unsettled()
            if self.draw.random() < 0.3:
                self.settle()
                self.tell(self.pipeline.change())
            elif self.draw.random() < 0.2:
                self.settle()
                self.lose()
            self.settle()
        self.topics.transactions.end_open(commits=self.draw.random() < 0.5)
        self.settle()
        self.check_letters()

    def start(self) -> None:
        """Send first records. If some of them precede the start of the pipeline, let it start."""
        pipeline, topics = self.pipeline, self.topics
        topics.add_topic()
        # Brokers find offsets also by the ends of transactions, which have the broker's time.
        topics.has_transactions = pipeline.startup != "timestamp"
        if pipeline.one_table:
            topics.change("insert", "t0")  # the table is made from a first message
            topics.flush()
        topics.act(self.draw.randint(0, 6))
        if pipeline.startup != "earliest-offset":
            for record in topics.records:
                record.fate = SKIPPED
            pipeline.start_millis = topics.millis()
            if pipeline.startup == "timestamp":
                topics.act(self.draw.randint(0, 3))
            self.settle()
        topics.has_transactions = topics.may_stay_open = True

    def change_topics(self) -> None:
        way = self.draw.random()
        if way < 0.15 and len(self.topics.partitions) < 3:
            self.topics.add_topic()
        elif way < 0.3:
            self.topics.add_partition()
        elif way < 0.4:
            self.topics.delete_records(unread=False)

    def lose(self) -> None:
        """Delete records that were not read, or a whole topic."""
        if self.pipeline.kind == "sum":
            return
        if self.draw.random() < 0.3:
            self.topics.renew_topic()
            self.lost = True
        else:
            self.topics.act(3)
            self.lost = self.topics.delete_records(unread=True)

    def change_unsettled(self) -> None:
        """Change settings, or delete records, after a run that may have read some of the records."""
        way = self.draw.random()
        if way < 0.5:
            before = {table: self.pipeline.target(table) for table in self.topics.tables}
            self.tell(self.pipeline.change())
            for record in self.topics.records:
                if record.fate == FUTURE and record.source_table is not None and not self.topics.waits(record):
                    record.also.add(before[record.source_table])
        elif way < 0.65:
            self.topics.renew_topic(surely=False)
            self.renewed = True
        else:
            self.topics.delete_records(unread=True, surely=False)

    def change_meanwhile(self) -> None:
        self.topics.act(self.draw.randint(1, 3))
        if self.draw.random() < 0.3 and len(self.topics.partitions) < 3 and self.pipeline.pattern:
            self.topics.add_topic()
        elif self.draw.random() < 0.3:
            self.topics.add_partition()

    def restart(self) -> None:
        self.topics.broker.stop()
        self.topics.broker.start()
        # A client that knows the broker from before would delete records of leaders that are no more.
        self.topics.admin = AdminClient({"log_level": 0, **self.topics.broker.properties})

    # Runs

    def run_with_trouble(self) -> None:
        pipeline = self.pipeline
        may_park = pipeline.isolate and pipeline.as_spark and not pipeline.one_table
        parked = pipeline.target(self.draw.choice(self.topics.tables)) if may_park else None
        with pytest.MonkeyPatch.context() as patch:
            Troubles(self.draw, self.tell, self.change_meanwhile, self.restart, parked).happen(patch)
            stops = self.draw.random() < 0.4 and not pipeline.as_spark
            try:
                self.run_once(most=self.draw.randint(1, 3) if stops else None)
            except (PenstockError, Killed, OSError) as error:
                self.tell(f"  {error!r}"[:150])

    def run_once(self, *, most: int | None = None, **more: Any) -> None:
        until = "forever" if most else "caught-up"
        spec = self.pipeline.spec(list(self.topics.partitions), until=until, **more)
        self.tell(f"run most={most} {more}")
        with pytest.MonkeyPatch.context() as patch:
            if self.pipeline.small_pieces:
                patch.setattr(kafka_source, "piece_size", partial(piece_size, smallest=3))
                patch.setattr(read, "_FIRST_CHUNK", 2)
                patch.setattr(read, "_sizes", {})
            if not self.pipeline.as_spark:
                run_here(spec, self.note, most)
                return
            try:
                run(spec, on_batch=self.note)
            finally:
                note_as_spark_does(Path(spec.checkpoint))

    def note(self, identity: BatchIdentity, report: BatchReport) -> None:
        self.reports[identity.number] = report

    # What must be

    def settle(self) -> None:
        """Run to the end. Only what is really missing may be refused, and it must be."""
        records = self.topics.records
        lacking = self.lacking()
        unread = [record for record in records if record.fate == FUTURE and not self.topics.waits(record)]
        unsure = [record for record in unread if record.also or record.may_be_lost]
        refused = self.run_to_the_end()
        known = {records[number].source_table for number, _ in lacking if records[number].fate}
        assert refused or not known, f"rows of {known} were not refused"
        assert refused or not self.lost, "lost records were not refused"
        assert PositionLost not in refused or self.lost or unsure or self.renewed, "nothing was lost"
        assert CheckpointMismatch not in refused or unsure or lacking or self.was_excluded, "no table lacks rows"
        self.lost = self.renewed = False
        self.was_excluded = bool(self.pipeline.excluded)
        self.resolve(unsure, was_refused=bool(refused))
        self.accepted |= self.lacking()
        self.topics.settle(self.pipeline.target)
        self.accepted |= self.lacking()
        self.compare()

    def run_to_the_end(self) -> set[type]:
        """Run until all tables have what there is. Return the kinds of errors that refused it first."""
        refused = set[type]()
        for _ in range(2):
            try:
                self.run_once(accept_gap=bool(refused))
                if self.checkpoint.parked():
                    self.run_once(retry_parked=True, accept_gap=bool(refused))
            except (PositionLost, CheckpointMismatch) as error:
                assert not refused, "gaps are accepted"
                self.tell(f"  {error!r}"[:250])
                refused.add(type(error))
            else:
                break
        assert not self.checkpoint.parked()
        return refused

    def lacking(self) -> set[tuple[int, str]]:
        """Return the records that the tables lack to which their source tables go now."""
        found: set[tuple[int, str]] = set()
        for number, record in enumerate(self.topics.records):
            if record.change is None or record.fate in NOT_READ:
                continue
            target = self.pipeline.target(record.change.table)
            if (
                target is not None
                and target not in {record.fate, *record.also}
                and (number, target) not in self.accepted
            ):
                found.add((number, target))
        return found

    def resolve(self, unsure: list[Record], *, was_refused: bool) -> None:
        """Find out which of these records were read, by their rows."""
        found: dict[tuple[str, int, int, str], list[str]] = {}
        for name in self.tables() if unsure else ():
            for row in Table(self.warehouse.store(name)).scan().to_arrow().to_pylist():
                # A topic that was created again has the same offsets once more.
                place = row["_topic"], row["_partition"], row["_offset"], str(row["s"])
                found.setdefault(place, []).append(name)
        for record in unsure:
            if (
                record.change is None
                or record.change.after is None
                or not self.pipeline.expected.passes(record.change.after)
            ):
                record.fate, self.uncounted = UNKNOWN, True
                continue
            now = self.pipeline.target(record.change.table)
            there = found.get((*record.place, record.offset, str(record.change.after["s"])), [])
            assert set(there) <= {now, *record.also}, (record, there)
            assert len(set(there)) == len(there), f"{record} is there twice: {there}"
            assert now in {None, *there} or was_refused or None in record.also, f"{record} is not in {now}"
            record.also = set(there)
            record.fate = there[0] if there else LOST if record.may_be_lost else None
            self.uncounted |= record.may_be_lost

    def tables(self) -> list[str]:
        return sorted(set(self.warehouse.tables("ods")) - {LETTERS}) if self.warehouse.databases() else []

    def compare(self) -> None:
        options, found = self.pipeline.options, set(self.tables())
        fates = {
            fate for record in self.topics.records if record.change is not None for fate in (record.fate, *record.also)
        }
        for name in sorted(found | {fate for fate in fates if fate and "." in fate}):
            records = self.topics.read_for(name)
            if name not in found:
                assert not self.pipeline.expected.of(records), f"{name} does not exist"
                continue
            table = Table(self.warehouse.store(name))
            if options["bucket"] == "-2":
                table.compact(full=False)
            self.pipeline.expected.check(name, table.scan().to_arrow().to_pylist(), records)
            check_invariants(table, excused={"I4"} if "deletion-vectors.enabled" in options else set())
        if not self.uncounted:
            self.check_counts()

    def check_counts(self) -> None:
        read_, reports = self.read(), self.reports.values()
        assert sum(report.messages for report in reports) == len(read_)
        assert sum(report.bad_count for report in reports) == sum(map(self.pipeline.is_bad, read_))
        tombstones = sum(report.passed_over["messages.tombstone"] for report in reports)
        assert tombstones == sum(record.what == "tombstone" for record in read_)

    def check_letters(self) -> None:
        if self.uncounted or self.pipeline.on_bad != "dead-letter":
            return
        bad = filter(self.pipeline.is_bad, self.read())
        sent = Counter(f"{record.place[0]}/{record.place[1]}@{record.offset}" for record in bad)
        has_letters = self.warehouse.databases() and LETTERS in self.warehouse.tables("ods")
        rows = Table(self.warehouse.store(LETTERS)).scan().to_arrow().to_pylist() if has_letters else []
        assert Counter(row["source_position"] for row in rows) == sent

    def read(self) -> list[Record]:
        return [record for record in self.topics.records if record.fate not in NOT_READ]


_numbers = itertools.count()


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_have_what_was_sent_after_random_records_and_runs(broker: Broker, tmp_path: Path, seed: int) -> None:
    with running() as registry:
        play = Play.of(broker, registry, tmp_path, random.Random(seed), f"r{os.getpid()}-{next(_numbers)}")
        with history_shown(play.topics.history):
            play.run()
