"""Dead letters as a source of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from penstock.formats.change import Messages
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.source import Limit, Offsets, Range
from penstock.pipelines.api.dead_letters import Letter
from penstock.pipelines.tasks.range_report import MOST_BAD_SHOWN


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
