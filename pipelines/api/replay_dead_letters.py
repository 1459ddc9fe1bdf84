"""Replays dead letters: their messages pass through the same steps as the first time, into the same tables."""

from __future__ import annotations

import secrets
import tempfile
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.ingest.connectors import connector_of
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.source import Offsets
from penstock.pipelines.api import dead_letters
from penstock.pipelines.api.dead_letters import Letter, are_there, letters_of
from penstock.pipelines.api.letter_source import LetterSource
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.local_runner import run_tasks, take_batch
from penstock.pipelines.errors import CheckpointInUse, TablesParked
from penstock.pipelines.job import build
from penstock.pipelines.job.job import Job
from penstock.pipelines.ledger.batch_identity import NOW, BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.bad_records import BadRecordLimit, OnBad
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.dead_letter_table import letters_table
from penstock.table.handle import Table

SUFFIX = ".dlq"  # of the commit user's name: replays have their own numbering


@dataclass(slots=True)
class ReplayResult:
    """The result of the replay `writer`. `bad` maps the names of letters that are still bad to their errors."""

    writer: str
    rows: dict[str, int] = field(default_factory=dict)
    bad: dict[str, tuple[str, str]] = field(default_factory=dict)


def table_of_letters(spec: PipelineSpec) -> str:
    return letters_table(spec.errors.dead_letter.table, spec.sink.database)


@dataclass(frozen=True, slots=True)
class BegunReplay:
    """A replay before its commits. `good` are the keys of the letters that it writes, `end` is the end of its batch.

    It is kept until the letters are settled. A repetition reads the letters in `good` only: if it read others that fit
    meanwhile, tables that have the batch would skip them, and they would be deleted all the same. `writer` is a name
    that no other replay has: numbers of snapshots are used again if the dead-letter table is created again.
    """

    writer: str
    end: Offsets
    good: frozenset[str]

    @classmethod
    def of(cls, folder: CheckpointFolder) -> BegunReplay | None:
        """Return the replay that has not ended; None if all have."""
        kept = folder.begun_replay()
        return None if kept is None else cls(kept["writer"], kept["end"], frozenset(kept["good"]))

    def letters(self, letters: Sequence[Letter]) -> list[Letter]:
        return [letter for letter in letters if letter.key_of_content in self.good]

    def note(self, folder: CheckpointFolder) -> None:
        """Keep the replay. Raise CheckpointInUse if another one has not ended."""
        if not folder.begin_replay({"writer": self.writer, "end": self.end, "good": sorted(self.good)}):
            raise _another(folder)


def _another(folder: CheckpointFolder) -> CheckpointInUse:
    return CheckpointInUse(
        "another process replays dead letters of this pipeline; this one wrote nothing",
        checkpoint=folder.location,
        hint="wait until it has ended, and replay again: if it was killed, this finishes it first",
    )


@dataclass(slots=True)
class _NotedOutcome(BadRecordLimit):
    """Notes before the first commit of a replay which letters it writes."""

    note: Callable[[BatchReport], None] = lambda _: None

    def check(self, report: BatchReport) -> None:
        BadRecordLimit.check(self, report)
        self.note(report)


def replay(spec: PipelineSpec, letters: Sequence[Letter], table: Table) -> ReplayResult:
    """Write the content of letters of this table into the pipeline's tables, exactly once.

    Letters that are still bad are reported, not written. After the letters are settled, `ended` is to be called. Before
    it, `finished` is: there may be a replay that was interrupted.
    """
    empty = next((letter for letter in letters if letter.value is None), None)
    if empty is not None:
        raise ConfigError(
            "the dead letter contains no message that could be replayed",
            position=empty.position,
            hint="penstock dlq ... drop",
        )
    snapshot = next(table.store.snapshots.newest_first())
    # Part of the range: another choice of letters from the same snapshot is not the same batch.
    which = zlib.crc32("\n".join(letter.name for letter in letters).encode())
    end = {"letters": snapshot.id, "which": which, NOW: snapshot.time_millis}
    folder, writer = _checkpoint(spec), f"replay-{secrets.token_hex(4)}"

    def note(bad: Collection[str]) -> None:
        good = frozenset(letter.key_of_content for letter in letters if letter.name not in bad)
        BegunReplay(writer, end, good).note(folder)
        # No other replay can begin now. One that ended since the letters were read has written some of them.
        if not are_there(table.refresh(), letters, spec.pipeline.name):
            folder.end_replay()
            raise _another(folder)

    return _replayed(spec, letters, writer, end, note)


def finished(spec: PipelineSpec, table: Table) -> Table:
    """Finish the replay that was interrupted, if there is one. Return the table of letters after it."""
    begun = begun_of(spec)
    if begun is None:
        return table
    pipeline = spec.pipeline.name
    left = begun.letters(letters_of(table.scan(where=pc.field("pipeline") == pipeline).to_arrow()))
    if left:
        # Tables that have the rows skip them.
        done = _replayed(spec, left, begun.writer, begun.end, lambda _: None)
        dead_letters.settle(table, left, done.bad, pipeline)
    ended(spec, begun.writer)
    return table.refresh()


def ended(spec: PipelineSpec, writer: str) -> None:
    """Forget the replay of this writer: its letters are settled."""
    begun = begun_of(spec)
    if begun is not None and begun.writer == writer:
        _checkpoint(spec).end_replay()


def given_up(folder: CheckpointFolder, table: Table | None, pipeline: str) -> None:
    """Forget a replay that has not ended if all of its letters are gone, as after `penstock dlq drop`.

    So a replay that cannot be finished can end. `table` has the letters; None if it does not exist.
    """
    begun = BegunReplay.of(folder)
    if begun is None:
        return
    there = [] if table is None else letters_of(table.scan(where=pc.field("pipeline") == pipeline).to_arrow())
    if not begun.letters(there):
        folder.end_replay()


def begun_of(spec: PipelineSpec) -> BegunReplay | None:
    return BegunReplay.of(_checkpoint(spec))


def _checkpoint(spec: PipelineSpec) -> CheckpointFolder:
    return CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)


def _replayed(
    spec: PipelineSpec, letters: Sequence[Letter], writer: str, end: Offsets, begin: Callable[[Collection[str]], None]
) -> ReplayResult:
    """Write the letters. `begin` is called before the first commit, with the names of those that are still bad."""
    done = ReplayResult(writer)
    job = build.job(spec)
    _check_parked(job, has_begun=begun_of(spec) is not None)
    value_format = connector_of(spec.source).message_format(spec.source)

    def outcome(report: BatchReport) -> None:
        for place, _, records in report.bad:
            for record in records.shown:
                done.bad[f"{place}@{record.position}"] = (record.reason_class, record.message)
        begin(done.bad)

    def note(identity: BatchIdentity, report: BatchReport) -> None:
        done.rows |= report.rows  # a replay is a single batch

    # No number of letters that are still bad ends the replay: they are reported, and stay in the table.
    on_bad = OnBad("skip", spec.pipeline.name, most=len(letters), share=1.0)
    again = replace(
        job,
        name=f"{job.name}{SUFFIX}",
        source=DecodedSource(LetterSource(letters, end), value_format),
        # A table that fails ends the replay: the rows of a table that is parked would be lost with their letters.
        errors=replace(job.errors, on_bad=on_bad, isolates=False, leaves_out=False),
        delivery=replace(job.delivery, accept_replay=True),
    )
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        driver = again.driver(Path(scratch), 1, 1, run_tasks, note)
        driver.limit = _NotedOutcome(driver.limit.on_bad, note=outcome)
        # A replay that is repeated after a crash has the same identity, and is skipped by tables that have its batch.
        driver.checkpoint = writer
        take_batch(driver, int(end["letters"]), again.source.initial_offsets(), end)
    return done


def _check_parked(job: Job, *, has_begun: bool) -> None:
    """Raise TablesParked if tables are parked: their letters would be read and not be written."""
    parked = job.parking().tables
    if parked:
        then = "or  --reset TABLE ; then replay"
        if has_begun:  # no table is emptied before it has ended
            then = "then replay; if it cannot,  penstock dlq FILE drop  deletes the letters, then  --reset TABLE"
        raise TablesParked(
            "dead letters cannot be replayed while tables are parked; nothing was written",
            tables=", ".join(sorted(parked)),
            hint=f"penstock run FILE --retry  releases the tables, {then}",
        )
