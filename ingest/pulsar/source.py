"""Pulsar topics as a source: their partitions, where to start, where a batch ends.

Offsets: {"offsets": {topic: {partition: position}}, "began": the same for partitions first seen in this batch, "gaps":
the start of the batch in partitions that lost messages, "subscription": its name}. The end of a batch records how the
batch begins, so that a batch planned again after a crash is the same, whatever the brokers have deleted since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import pulsar

from penstock.errors import in_one_line
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.pulsar.cluster import PulsarCluster
from penstock.ingest.pulsar.lost_messages import (
    accepted_gaps,
    emptied_partitions,
    lost_beginnings,
    lost_unread,
)
from penstock.ingest.pulsar.position import START, Position
from penstock.ingest.pulsar.read import is_at, last_message, read_range
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import Place, partition_name
from penstock.ingest.source import Limit, Offsets, Range

log = logging.getLogger(__name__)

SMALL_ENTRIES = 500  # of a small batch; each contains one message or a batch of them
_MEASURED = 20  # messages of a partition from which the size of its entries is estimated


class PulsarSource:
    """A `Source` over topics; `read` yields the messages of a range in chunks."""

    def __init__(self, settings: PulsarSettings) -> None:
        self.settings = settings
        self._known: PulsarCluster | None = None
        # The last entry of partitions that deliver no message up to it, such as markers of transactions.
        self._silent: dict[Place, Position] = {}
        # For each partition the last position that was committed, and the one before it.
        self._committed: dict[Place, tuple[Position, Position]] = {}
        # Partitions without a message that was read, whose subscription this run has checked.
        self._asked: set[Place] = set()

    def __reduce__(self) -> tuple[type[PulsarSource], tuple[PulsarSettings]]:
        return PulsarSource, (self.settings,)

    @property
    def _cluster(self) -> PulsarCluster:
        self._known = self._known or PulsarCluster(self.settings)
        return self._known

    def initial_offsets(self) -> Offsets:
        # The startup mode is resolved together with the first end, which the checkpoint stores.
        return {}

    def available(self) -> Offsets:
        return self._offsets({place: self._cluster.end(place) for place in self._cluster.partitions()})

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        places = self._cluster.partitions()
        wanted = _flat(until["offsets"]) if until is not None else {}
        if until is not None:
            places = [place for place in places if place in wanted]
        known = _flat(start.get("offsets", {}))
        unread = self._unread(start, {place: known[place] for place in places if place in known})
        lasts = {place: self._cluster.last(place) for place in places}
        began = {place: self._beginning(start, place, lasts[place]) for place in places if place not in known}
        accepts = self.settings.accept_gap
        if not start:
            lost_beginnings(self._cluster, self._named(began), accepts=accepts)
        froms = {place: known[place] for place in places if place in known}
        lost = unread | emptied_partitions(self._cluster, froms, lasts, accepts=accepts)
        froms = {place: (known | began | lost)[place] for place in places}
        targets = {place: min(lasts[place], wanted.get(place, lasts[place])) for place in places}
        moved = [place for place in places if targets[place] > froms[place] and not self._is_silent(place, lasts)]
        repeated = {place: froms[place] for place in moved if place in known}
        gaps = lost | (accepted_gaps(self._cluster, repeated) if accepts else {})
        froms |= gaps
        found = {place: self._end(place, froms[place], targets[place], limit, len(moved)) for place in moved}
        ends = froms | {place: end for place, end in found.items() if end is not None}
        self._silent |= {place: lasts[place] for place in moved if ends[place] == froms[place]}
        if start and not began and not gaps and ends == {place: known[place] for place in places}:
            return start
        # Partitions that are not part of this batch keep their offsets for a later one.
        offsets = self._offsets(known | ends)
        offsets |= {"began": _nested(began)} if began else {}
        return offsets | ({"gaps": _nested(gaps)} if gaps else {})

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        """Return one range for each partition with messages.

        A partition is not divided: a message whose chunks are in two parts would be read by neither of them.
        """
        # The later ones win: a gap moves the start of a partition that is known or has just been found.
        froms = _flat(end.get("began", {})) | _flat(start.get("offsets", {})) | _flat(end.get("gaps", {}))
        ends = _flat(end["offsets"])
        spans = [(place, froms[place], ends[place]) for place in sorted(ends) if ends[place] > froms[place]]
        return [
            Range(number, partition_name(place), str(begin), str(stop), _entries(begin, stop))
            for number, (place, begin, stop) in enumerate(spans)
        ]

    def small_weight(self) -> int:
        return SMALL_ENTRIES

    def sample(self, records: int) -> list[Range]:
        """Return ranges with about this number of messages over all partitions, from the first ones left.

        Subscribes to nothing: `plan` and `check` change nothing on the server.
        """
        places = self._cluster.partitions()
        found: list[Range] = []
        for place in places:
            per_place = max(1, records // len(places))
            if not self._cluster.has_messages(place):
                continue
            positions = [position for position, _, _ in self._cluster.received(place, START, count=per_place)]
            if positions:
                found.append(Range(len(found), partition_name(place), str(START), str(positions[-1]), len(positions)))
        return found

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        return read_range(self.settings, range_)

    def last_before(self, range_: Range) -> FetchedMessages | None:
        """Return the last message of the previous batch; None if the partition is read from its beginning."""
        return last_message(self.settings, range_)

    def is_shown_next(self, range_: Range, last: FetchedMessages) -> bool:
        """Return whether the message is the end of the range, which the next batch begins with."""
        return is_at(last, Position.of(range_.end))

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Return the entries that follow. Without the admin interface, only entries of the newest ledger are known."""
        found = _flat(offsets.get("offsets", {})) if offsets else {}
        behind = {}
        for place in self._cluster.partitions():
            at, last = found.get(place, START), self._cluster.last(place)
            behind[partition_name(place)] = self._behind(place, at, last) if last > at else 0
        return behind

    def _behind(self, place: Place, at: Position, last: Position) -> int:
        older = self._cluster.ledgers(place) if at.ledger != last.ledger else {}
        # Entries of the first ledger that are not read yet, and all of the ledgers between it and the newest one.
        read = at.entry + 1 if at.is_message else at.entry
        first = max(0, older[at.ledger] - read) if at.ledger in older else 0
        return _entries(at, last) + first + sum(older[ledger] for ledger in older if at.ledger < ledger < last.ledger)

    def mirror(self, offsets: Offsets) -> None:
        """Acknowledge the messages before the last message of the previous batch.

        That message has to stay. This batch begins with it, if it is repeated after a crash: that the message is still
        there proves that no message in between was deleted.
        """
        for place, position in _flat(offsets["offsets"]).items():
            newest, older = self._committed.get(place, (position, START))
            try:
                self._cluster.acknowledge(place, older, newest)
            except pulsar.PulsarException as error:
                log.warning("event=not_acknowledged topic=%s reason=%s", partition_name(place), in_one_line(error))
            self._committed[place] = (position, newest if position > newest else older)

    def close(self) -> None:
        if self._known is not None:
            self._known.close()
        self._known = None

    def _offsets(self, ends: Mapping[Place, Position]) -> Offsets:
        return {"offsets": _nested(ends), "subscription": self.settings.subscription}

    def _unread(self, start: Offsets, froms: Mapping[Place, Position]) -> dict[Place, Position]:
        """Return the start of partitions that lost messages before any was read; asked once, when a run begins.

        Offsets with another subscription are not checked: the subscription of this run is new, and keeps messages only
        from now on.
        """
        asked = {place: at for place, at in froms.items() if not at.is_message and place not in self._asked}
        self._asked |= asked.keys()
        if start.get("subscription") != self.settings.subscription:
            return {}
        return lost_unread(self._cluster, asked, accepts=self.settings.accept_gap)

    def _is_silent(self, place: Place, lasts: Mapping[Place, Position]) -> bool:
        return self._silent.get(place) == lasts[place]

    def _beginning(self, start: Offsets, place: Place, last: Position) -> Position:
        # Partitions found while running: all messages in them are new.
        if start:
            return START
        startup = self.settings.startup
        match startup.mode:
            case "earliest":
                return START
            case "latest":
                # Nothing else shows that the network changed an answer. The lower position leaves out no message.
                last = min(last, self._cluster.last(place))
                return last.after if last != START else START
            case "publish-time":
                return self._cluster.at_time(place, startup.millis)
        ledger, entry, partition = startup.message_id or (-1, -1, -1)
        if partition != place[1]:
            return START
        return Position.before(ledger, entry if startup.inclusive else entry + 1)

    def _named(self, began: Mapping[Place, Position]) -> dict[Place, Position]:
        """Return the beginning of the partition of `startup.message-id`, by the entry of this id."""
        named = self.settings.startup.message_id
        if self.settings.startup.mode != "message-id" or named is None:
            return {}
        return {place: Position.before(*named[:2]) for place in began if place[1] == named[2]}

    def _end(self, place: Place, start: Position, target: Position, limit: Limit, moved: int) -> Position | None:
        """Return the end of the batch in this partition, None if no message is delivered."""
        if limit.rows is not None or limit.bytes is not None:
            target = self._limited(place, start, target, limit, moved)
        return self._cluster.newest(place, start, target)

    def _limited(self, place: Place, start: Position, target: Position, limit: Limit, moved: int) -> Position:
        """Return a nearer target if there are more messages than allowed, by the size of the first entries.

        Entries are counted within one ledger: only the next ledger shows where this one ends.
        """
        first = None
        batches: list[int] = []
        lengths: list[int] = []
        for position, batch, length in self._cluster.received(place, start, 5000, _MEASURED):
            if position > start:
                first = first or position
                batches.append(max(1, batch))
                lengths.append(length)
        if first is None:
            return target
        rows = limit.rows if limit.rows is not None else 1 << 62
        if limit.bytes is not None:
            rows = min(rows, int(limit.bytes / max(1.0, sum(lengths) / len(lengths))))
        entries = max(1, int(rows / max(1, moved) * len(batches) / sum(batches)))
        return min(target, Position.end_of_entry(first.ledger, first.entry + entries - 1))


def _entries(start: Position, end: Position) -> int:
    """Return the number of entries between two positions, counted in the ledger of the end."""
    return max(1, end.entry - start.entry if start.ledger == end.ledger else end.entry + 1)


def _flat(nested: Mapping[str, Mapping[str, str]]) -> dict[Place, Position]:
    return {
        (topic, int(partition)): Position.of(text)
        for topic, parts in nested.items()
        for partition, text in parts.items()
    }


def _nested(flat: Mapping[Place, Position]) -> dict[str, dict[str, str]]:
    nested: dict[str, dict[str, str]] = {}
    for (topic, partition), position in sorted(flat.items()):
        nested.setdefault(topic, {})[str(partition)] = str(position)  # JSON keys are text
    return nested
