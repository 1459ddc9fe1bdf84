"""A source of messages in this process: partitions of a log, with the offsets and the connector of a broker.

The messages are in `LOGS`, which outlives the simulated processes as a broker does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from penstock.formats.change import Messages
from penstock.ingest.connector import Capabilities, Connector, SourceConfig
from penstock.ingest.connector_answers import Sampler
from penstock.ingest.connector_requests import KeylessRule, SourceRequest
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.source import SMALL_RECORDS, Limit, Offsets, Range, cut, shares

Message = tuple[bytes | None, bytes | None]  # key and value
LOGS: dict[str, dict[str, list[Message]]] = {}  # the partitions of each log
MARKER: Message = (None, None)  # an offset without a message, as the end of a transaction has
MILLIS = 1_700_000_000_000  # the time of the first message of a partition
CHUNK = 7  # messages that are fetched together


@dataclass(slots=True)
class LogSource:
    """A `MessageSource`. With `piece` messages in a range; batches up to `small` messages are small."""

    log: str
    piece: int
    small: int

    def initial_offsets(self) -> Offsets:
        return {"offsets": dict.fromkeys(sorted(LOGS[self.log]), 0)}

    def available(self) -> Offsets:
        return {"offsets": {place: len(found) for place, found in sorted(LOGS[self.log].items())}}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        begin, end = start["offsets"], (until or self.available())["offsets"]
        waiting = {place: end[place] - begin[place] for place in end}
        total = sum(waiting.values())
        granted = shares(waiting, min(total, limit.rows or total)) if total else waiting
        ends = {place: begin[place] + granted[place] for place in begin}
        return start if ends == begin else {"offsets": ends}

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        pieces = [
            (place, begin, stop)
            for place, first in sorted(start["offsets"].items())
            if end["offsets"][place] > first
            for begin, stop in cut(first, end["offsets"][place], self.piece)
        ]
        return [
            Range(number, f"log/{place}", begin, stop, stop - begin)
            for number, (place, begin, stop) in enumerate(pieces)
        ]

    def small_weight(self) -> int:
        return self.small

    # as a `DeferringSource`

    def standing(self, start: Offsets) -> Offsets:
        return _at(start)

    def deferred(self, position: Offsets, end: Offsets) -> Offsets:
        return _at(position)

    def deferred_end(self, position: Offsets, newest: Offsets, limit: Limit) -> Offsets:
        return _at(self.latest_offsets(position, limit, newest))

    def behind(self, position: Offsets, newest: Offsets) -> int:
        begin, end = position["offsets"], newest["offsets"]
        return sum(max(0, end[place] - begin[place]) for place in end)

    def oldest(self, positions: Sequence[Offsets]) -> Offsets:
        places = positions[0]["offsets"]
        return {"offsets": {place: min(position["offsets"][place] for position in positions) for place in places}}

    def sample(self, records: int) -> list[Range]:
        start = self.initial_offsets()
        return self.plan(start, self.latest_offsets(start, Limit(rows=records)), 1)

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        partition = range_.place.removeprefix("log/")
        for begin in range(range_.start, range_.end, CHUNK):
            log = enumerate(LOGS[self.log][partition][begin : min(begin + CHUNK, range_.end)], begin)
            found = [(offset, *message) for offset, message in log if message is not MARKER]
            if not found:
                continue
            offsets = np.array([offset for offset, _, _ in found], np.int64)
            messages = Messages(
                [value for _, _, value in found], offsets, [key for _, key, _ in found], MILLIS + offsets
            )
            size = sum(len(value or b"") for value in messages.values)
            yield FetchedMessages("log", int(partition), messages, size, [()] * len(offsets))

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return {}

    def mirror(self, offsets: Offsets) -> None: ...

    def close(self) -> None: ...


def _at(position: Offsets) -> Offsets:
    return {"offsets": position["offsets"]}


class LogConfig(SourceConfig):
    type: Literal["story-log"]
    log: str
    piece: int = 20_000
    small: int = SMALL_RECORDS
    looks: bool = False
    value_format: str = Field(alias="value.format")


class LogConnector(Connector[LogConfig]):
    """Logs of this process."""

    name = "story-log"
    config = LogConfig
    capabilities: ClassVar[Capabilities] = Capabilities(defers_ranges=True)

    def open(self, config: LogConfig, request: SourceRequest) -> DecodedSource:
        return DecodedSource(self._source(config), config.value_format)

    def sampler(self, config: LogConfig, request: SourceRequest) -> Sampler | None:
        return Sampler(self._source(config).sample, "log") if config.looks else None

    def keyless(self, config: LogConfig) -> KeylessRule:
        return "as-stated"

    def message_format(self, config: LogConfig) -> str:
        return config.value_format

    @staticmethod
    def _source(config: LogConfig) -> LogSource:
        return LogSource(config.log, config.piece, config.small)


CONNECTOR = LogConnector()
