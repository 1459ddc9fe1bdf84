"""Replays dead letters: their messages pass through the same steps as the first time, into the same tables."""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from penstock.errors import ConfigError
from penstock.formats.change import Messages
from penstock.ingest.connectors import connector_of
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.source import Limit, Offsets, Range
from penstock.pipelines.api.dead_letters import Letter
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.local_runner import run_tasks, take_batch
from penstock.pipelines.job import build
from penstock.pipelines.ledger.batch_identity import NOW, BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.bad_records import BadRecordLimit, OnBad
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.dead_letter_table import letters_table
from penstock.pipelines.tasks.range_report import MOST_BAD_SHOWN
from penstock.table.meta.snapshot import Snapshot

SUFFIX = ".dlq"  # of the commit user's name: replays have their own numbering


@dataclass(slots=True)
class ReplayResult:
    """The result of a replay. `bad` maps the names of letters that are still bad to their errors."""

    rows: dict[str, int] = field(default_factory=dict)
    bad: dict[str, tuple[str, str]] = field(default_factory=dict)


def table_of_letters(spec: PipelineSpec) -> str:
    return letters_table(spec.errors.dead_letter.table, spec.sink.database)


class LetterSource:
    """A `MessageSource` of dead letters. Its ranges are so small that a report lists all bad records of a range."""

    def __init__(self, letters: Sequence[Letter], end: Offsets) -> None:
        self._letters = letters
        self._end = end

    def initial_offsets(self) -> Offsets:
        return {"letters": 0}

    def available(self) -> Offsets:
        return self._end

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return self.available()

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        cuts = [0]
        for number, letter in enumerate(self._letters):
            # A range has one place, because fetched messages have one topic and one partition.
            if number - cuts[-1] >= MOST_BAD_SHOWN or letter.part != self._letters[cuts[-1]].part:
                cuts.append(number)
        ends = [*cuts[1:], len(self._letters)]
        return [
            Range(number, self._letters[begin].part, begin, end, end - begin)
            for number, (begin, end) in enumerate(zip(cuts, ends, strict=True))
        ]

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        letters = self._letters[range_.start : range_.end]
        times = [letter.millis for letter in letters]
        numbered = all(re.fullmatch(r"-?\d+", letter.id) for letter in letters)
        offsets = [int(letter.id) for letter in letters] if numbered else list(range(range_.start, range_.end))
        messages = Messages(
            [letter.value for letter in letters],
            np.array(offsets, np.int64),
            [letter.key for letter in letters],
            # The times of messages are one array without nulls, so if one letter has no time, all times are left out.
            None if None in times else np.array(times, np.int64),
        )
        first = letters[0]
        size = sum(len(letter.value or b"") for letter in letters)
        headers = [list(letter.headers) for letter in letters]
        yield FetchedMessages(
            first.topic or first.place,
            first.partition or 0,
            messages,
            size,
            headers,
            ids=None if numbered else [letter.id for letter in letters],
        )

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return {}

    def mirror(self, offsets: Offsets) -> None:
        """Do nothing: no other system displays these offsets."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BegunReplay:
    """A replay before its commits. `good` are the keys of the letters that it writes, `end` is the end of its batch.

    It is kept until the letters are settled. A repetition reads the letters in `good` only: if it read others that fit
    meanwhile, tables that have the batch would skip them, and they would be deleted all the same.
    """

    end: Offsets
    good: frozenset[str]

    @classmethod
    def of(cls, folder: CheckpointFolder) -> BegunReplay | None:
        """Return the replay that has not ended; None if all have."""
        kept = folder.begun_replay()
        return None if kept is None else cls(kept["end"], frozenset(kept["good"]))

    def letters(self, letters: Sequence[Letter]) -> list[Letter]:
        return [letter for letter in letters if letter.key_of_content in self.good]


@dataclass(slots=True)
class _NotedOutcome(BadRecordLimit):
    """Notes before the first commit of a replay which letters it writes."""

    note: Callable[[BatchReport], None] = lambda _: None

    def check(self, report: BatchReport) -> None:
        BadRecordLimit.check(self, report)
        self.note(report)


def replay(spec: PipelineSpec, letters: Sequence[Letter], snapshot: Snapshot) -> ReplayResult:
    """Write the content of the letters into the pipeline's tables, exactly once.

    Repeated for the same snapshot of the dead-letter table, it changes nothing. Letters that are still bad are
    reported, not written. After the letters are settled, `ended` is to be called.
    """
    empty = next((letter for letter in letters if letter.value is None), None)
    if empty is not None:
        raise ConfigError(
            "the dead letter contains no message that could be replayed",
            position=empty.position,
            hint="penstock dlq ... drop",
        )
    # Part of the range: another choice of letters from the same snapshot is not the same batch.
    which = zlib.crc32("\n".join(letter.name for letter in letters).encode())
    return _replayed(spec, letters, {"letters": snapshot.id, "which": which, NOW: snapshot.time_millis}, is_new=True)


def repeated(spec: PipelineSpec, begun: BegunReplay, letters: Sequence[Letter]) -> ReplayResult:
    """Write the letters of a replay that has not ended into the tables that lack them."""
    return _replayed(spec, letters, begun.end, is_new=False)


def ended(spec: PipelineSpec) -> None:
    """Forget the replay that was begun: its letters are settled."""
    _checkpoint(spec).end_replay()


def begun_of(spec: PipelineSpec) -> BegunReplay | None:
    return BegunReplay.of(_checkpoint(spec))


def _checkpoint(spec: PipelineSpec) -> CheckpointFolder:
    return CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)


def _replayed(spec: PipelineSpec, letters: Sequence[Letter], end: Offsets, *, is_new: bool) -> ReplayResult:
    done = ReplayResult()
    job, folder = build.job(spec), _checkpoint(spec)
    value_format = connector_of(spec.source).message_format(spec.source)

    def outcome(report: BatchReport) -> None:
        for place, _, records in report.bad:
            for record in records.shown:
                done.bad[f"{place}@{record.position}"] = (record.reason_class, record.message)
        if is_new:
            good = [letter.key_of_content for letter in letters if letter.name not in done.bad]
            folder.begin_replay({"end": end, "good": good})

    def note(identity: BatchIdentity, report: BatchReport) -> None:
        done.rows |= report.rows  # a replay is a single batch

    again = replace(
        job,
        name=f"{job.name}{SUFFIX}",
        source=DecodedSource(LetterSource(letters, end), value_format),
        # No number of letters that are still bad ends the replay: they are reported, and stay in the table.
        errors=replace(job.errors, on_bad=OnBad("skip", spec.pipeline.name, most=len(letters), share=1.0)),
        delivery=replace(job.delivery, accept_replay=True),
    )
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        driver = again.driver(Path(scratch), 1, 1, run_tasks, note)
        driver.limit = _NotedOutcome(driver.limit.on_bad, note=outcome)
        # The writer has a fixed name, and the number of its batch is the snapshot of the dead-letter table. So a replay
        # that is repeated after a crash has the same identity, and is skipped by tables that have its batch.
        driver.checkpoint = "replay"
        take_batch(driver, int(end["letters"]), again.source.initial_offsets(), end)
    return done
