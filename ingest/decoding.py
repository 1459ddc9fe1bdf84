"""A source of messages together with the format they are in: ranges of undecoded bytes become decoded changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.formats import decode
from penstock.formats.change import Decoded, DecodeOptions
from penstock.ingest.barriers import Barrier
from penstock.ingest.fetched import Fetched
from penstock.ingest.ranges import Limit, Offsets, Range, Source
from penstock.ingest.registry import RegistrySettings


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of a range. `fetched` is what it was decoded from, None for sources that hand out changes themselves;
    `barriers` are changes of whole tables, which are alone in their batch."""

    decoded: Decoded
    messages: int
    bytes: int
    fetched: Fetched | None = None
    barriers: tuple[Barrier, ...] = ()


class MessageSource(Source, Protocol):
    def read(self, range_: Range) -> Iterator[Fetched]: ...


class ChangeSource(Source, Protocol):
    """What the job reads from: a source whose ranges come decoded."""

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[Chunk]: ...


@dataclass(frozen=True, slots=True)
class DecodedSource:
    """A `ChangeSource` of messages in one format."""

    source: MessageSource
    format: str
    registry: RegistrySettings | None = None

    def initial_offsets(self) -> Offsets:
        return self.source.initial_offsets()

    def available(self) -> Offsets:
        return self.source.available()

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return self.source.latest_offsets(start, limit, until)

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        return self.source.plan(start, end, tasks)

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[Chunk]:
        if self.registry is not None:
            options = replace(options, registry=self.registry.client())
        for fetched in self.source.read(range_):
            yield Chunk(decode(self.format, fetched.messages, options), len(fetched.messages), fetched.size, fetched)

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return self.source.lag(offsets)

    def mirror(self, offsets: Offsets) -> None:
        self.source.mirror(offsets)

    def close(self) -> None:
        self.source.close()
