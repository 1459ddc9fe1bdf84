"""Kafka topics as a source: their partitions, where a batch begins and ends, how it is cut into ranges.

Offsets: {"offsets": {topic: {partition: next offset}}, "began": the same for partitions first seen in this batch,
"ids": {topic: the broker's topic id}, "epochs": {topic: {partition: leader epoch when the offset was determined}},
"gaps": the start of the batch in partitions that lost records}. The end of a batch records how the batch begins, so
that a batch planned again after a crash is the same, even if the state of the brokers has changed since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from confluent_kafka import KafkaException

from penstock.errors import PositionLost, in_one_line
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.kafka import deferred_offsets
from penstock.ingest.kafka.cluster import KafkaCluster, Place, place_of
from penstock.ingest.kafka.leader_epochs import LeaderEpochs, recorded_epochs
from penstock.ingest.kafka.lost_records import confirm_topics, gap_ends, gone_topics, recreated_topics, renewed_topics
from penstock.ingest.kafka.offset_text import flat, nested
from penstock.ingest.kafka.open_transactions import OpenTransactions, warn_of_left_out
from penstock.ingest.kafka.read import fetched_messages, read_range, sampled_size
from penstock.ingest.kafka.read_together import RangesAhead
from penstock.ingest.kafka.repeated_answers import confirmed, has_tls
from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
from penstock.ingest.kafka.startup_offsets import startup_offsets
from penstock.ingest.source import SMALL_RECORDS, Limit, Offsets, Range, cut, piece_size, shares

log = logging.getLogger(__name__)

SAMPLE_RECORDS = 200
# A message may be followed by offsets without messages: records that end transactions, and those that were aborted.
_LOOKS_BACK = 16


class KafkaSource:
    """A `Source` over topics; `read` yields the messages of a range in chunks."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._known: KafkaCluster | None = None
        self._ahead: RangesAhead | None = None
        self._open = OpenTransactions()
        self._epochs = LeaderEpochs(settings.properties, settings.accept_gap)
        self._newest: Offsets = {}  # the offsets that were determined last, from the current records of the brokers

    def __reduce__(self) -> tuple[type[KafkaSource], tuple[KafkaSettings]]:
        return KafkaSource, (self.settings,)

    @property
    def _cluster(self) -> KafkaCluster:
        self._known = self._known or KafkaCluster(self.settings.properties)
        return self._known

    def initial_offsets(self) -> Offsets:
        # The startup mode is resolved together with the first end, which the checkpoint stores.
        return {}

    def available(self) -> Offsets:
        places, ids = self._partitions()
        # In this order: records written between the two requests must not count as those of an open transaction.
        written, ends = self._cluster.written(places), self._cluster.latest(places)
        warn_of_left_out(ends, written)
        return {"offsets": nested(ends), "ids": ids}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        places, ids = self._partitions_after(start)
        if until is not None:
            wanted = flat(until["offsets"])
            places = [place for place in places if place in wanted]
        # The batch begins at the known offsets, at the beginning of partitions that are new, and after gaps.
        known = flat(start.get("offsets", {}))
        # A topic that was created again has other records at the same offsets. Only the topic's id shows this.
        renewed = recreated_topics(self.settings, start, ids)
        new = [place for place in places if place not in known]
        configured = {} if start else self._configured(new)
        firsts, ends, epochs = self._bounds(places, known)
        # Partitions found while running: all records in them are new. New partitions of a known topic begin at 0, so
        # that records deleted before they were read are noticed.
        found = {place: 0 if place[0] in start.get("offsets", {}) else firsts[place] for place in new}
        began = found | configured
        froms = {place: offset for place, offset in (known | began).items() if place in set(places)}
        recorded = recorded_epochs(start, renewed)
        cut = self._epochs.cut(froms, recorded, epochs)
        gaps = gap_ends(self.settings, froms, firsts, ends, renewed, cut, configured=not start)
        # The batch starts after the gap, and records this start: records may be deleted before it is planned again.
        froms |= gaps
        if until is not None:
            ends = {place: min(end, wanted[place]) for place, end in ends.items()}
        elif start:
            quiet = {place: end for place, end in ends.items() if end == froms[place]}
            self._open.look(quiet, self._cluster.written)
        # An end may be before the start: a bounded run continues a newer checkpoint, or the broker deleted records
        # between the two requests. Such a partition has an empty part in this batch.
        ends = {place: max(ends[place], froms[place]) for place in places}
        ends = self._limited(froms, ends, limit)
        if start and not began and not gaps and ends == {place: known[place] for place in places}:
            return start
        # Partitions that are not part of this batch keep their offsets for a later one.
        kept = {place: offset for place, offset in known.items() if place not in ends}
        offsets: Offsets = {"offsets": nested(kept | ends), "ids": {**start.get("ids", {}), **ids}}
        offsets |= {"epochs": nested(recorded | epochs)} if epochs else {}
        offsets |= {"began": nested(began)} if began else {}
        offsets |= {"gaps": nested(gaps)} if gaps else {}
        self._newest = offsets["offsets"]
        return offsets

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        # The later ones win: a gap moves the start of a partition that is known or has just been found.
        froms = flat(end.get("began", {})) | flat(start.get("offsets", {})) | flat(end.get("gaps", {}))
        ends = flat(end["offsets"])
        spans = {place: (froms[place], ends[place]) for place in sorted(ends) if ends[place] > froms[place]}
        if end["offsets"] != self._newest:  # an earlier process planned the batch, or tables catch up with it
            gone = gone_topics(self.settings, end, self._cluster.topic_ids({topic for topic, _ in spans}))
            spans = {place: span for place, span in spans.items() if place[0] not in gone}
        size = piece_size([stop - begin for begin, stop in spans.values()], tasks)
        pieces = [
            (f"{topic}/{partition}", piece) for (topic, partition), span in spans.items() for piece in cut(*span, size)
        ]
        ids = {f"{topic}/{partition}": end.get("ids", {}).get(topic, "") for topic, partition in spans}
        return [
            Range(number, place, begin, stop, stop - begin, ids[place])
            for number, (place, (begin, stop)) in enumerate(pieces)
        ]

    def small_weight(self) -> int:
        return SMALL_RECORDS

    def standing(self, start: Offsets) -> Offsets:
        return deferred_offsets.standing(start)

    def deferred(self, position: Offsets, end: Offsets) -> Offsets:
        return deferred_offsets.deferred(position, end)

    def deferred_end(self, position: Offsets, newest: Offsets, limit: Limit) -> Offsets:
        end = self.latest_offsets(position, limit, newest)
        return deferred_offsets.past_vanished(position, end, newest, accept_gap=self.settings.accept_gap)

    def behind(self, position: Offsets, newest: Offsets) -> int:
        return deferred_offsets.behind(position, newest)

    def oldest(self, positions: Sequence[Offsets]) -> Offsets:
        return deferred_offsets.oldest(positions)

    def sample(self, records: int) -> list[Range]:
        """Return ranges with about this number of records over all partitions, from the first records left.

        The startup mode of the pipeline does not matter for a sample.
        """
        first = KafkaSource(replace(self.settings, startup=StartOffsets("earliest-offset")))
        end = first.latest_offsets({}, Limit(rows=records))
        return first.plan({}, end, 1)

    def read_next(self, ranges: Sequence[Range]) -> None:
        # With a gap, each range begins at the first record that its partition has left.
        self._ahead = None if self.settings.accept_gap else RangesAhead(self.settings.properties, ranges)

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        settings = self.settings
        records = self._ahead.take(range_) if self._ahead else None
        if records is None:
            yield from read_range(settings.properties, range_, extras=settings.extras, accept_gap=settings.accept_gap)
        elif records:
            yield fetched_messages(*place_of(range_), records, settings.extras)

    def confirm(self, ranges: Sequence[Range], end: Offsets) -> None:
        # The consumer asks for offsets of a topic by its name, so it may have read those of another topic.
        ids = self._cluster.topic_ids({place_of(range_)[0] for range_ in ranges})
        confirm_topics(self.settings, end, ids)

    def last_before(self, range_: Range) -> FetchedMessages | None:
        """Return the last message among some offsets before a range; None if the broker has none there."""
        end, place = int(range_.start), place_of(range_)
        begin = max(0, end - _LOOKS_BACK)
        while begin < end:
            try:
                return self._last_in(replace(range_, start=begin, end=end))
            except PositionLost:
                first = self._cluster.earliest([place])[place]
                if first <= begin:
                    raise
                begin = first
        return None

    def _last_in(self, range_: Range) -> FetchedMessages | None:
        chunks = list(read_range(self.settings.properties, range_, extras=self.settings.extras))
        return chunks[-1].part(len(chunks[-1].messages) - 1, len(chunks[-1].messages)) if chunks else None

    def is_shown_next(self, range_: Range, last: FetchedMessages) -> bool:
        """Return whether the last message of a range is near enough to its end, which may be in a gap."""
        return int(last.messages.offsets[-1]) >= int(range_.end) - _LOOKS_BACK

    def lag(self, offsets: Offsets) -> dict[str, int]:
        # Without offsets, as in a new pipeline, it reads from the beginning of its startup mode.
        places, ids = self._partitions()
        at = flat(offsets.get("offsets", {})) if offsets else startup_offsets(self._cluster, self.settings, places)
        ends, renewed = self._cluster.latest(at), renewed_topics(offsets, ids)
        # A topic that was created again, or that lost its last records, is read from its first record on, if at all.
        at |= self._cluster.earliest(
            [place for place, offset in at.items() if place[0] in renewed or offset > ends[place]]
        )
        return {f"{topic}/{partition}": ends[topic, partition] - offset for (topic, partition), offset in at.items()}

    def mirror(self, offsets: Offsets) -> None:
        if self.settings.group is None:
            return
        try:
            self._cluster.set_group_offsets(self.settings.group, flat(offsets["offsets"]))
        except KafkaException as error:
            log.warning("event=group_offsets_not_set group=%s reason=%s", self.settings.group, in_one_line(error))
            # After a restart of the broker, an old client may stay silent.
            self._known = None

    def close(self) -> None:
        self._known = self._ahead = None

    def topics(self) -> list[str]:
        settings = self.settings
        return self._cluster.topics_matching(settings.pattern) if settings.pattern else list(settings.topics)

    def _partitions(self) -> tuple[list[Place], dict[str, str]]:
        return self._cluster.partitions(self.topics())

    def _partitions_after(self, start: Offsets) -> tuple[list[Place], dict[str, str]]:
        """Return partitions and ids of the topics. If they differ from the last batch, they are requested twice."""
        found = self._partitions()
        if has_tls(self.settings.properties) or found[1].items() <= start.get("ids", {}).items():
            return found
        if self._partitions() == found:
            return found
        return confirmed(lambda: (self._partitions(), self._partitions()), lambda answers: answers[0] == answers[1])[0]

    def _bounds(
        self, places: list[Place], known: Mapping[Place, int]
    ) -> tuple[dict[Place, int], dict[Place, int], dict[Place, int]]:
        """Return the bounds of the partitions. If records seem to be lost, the bounds are requested again."""
        found = self._cluster.bounds(places)
        firsts, ends, _ = found
        is_lost = any(not firsts[place] <= known[place] <= ends[place] for place in places if place in known)
        return self._cluster.bounds(places) if is_lost else found

    def _configured(self, places: list[Place]) -> dict[Place, int]:
        """Return where a new pipeline begins, if that is not the first record of all partitions.

        Without TLS, the lower of two answers decides, so that no record is left out.
        """
        if self.settings.startup.mode == "earliest-offset":
            return {}
        found = startup_offsets(self._cluster, self.settings, places)
        if has_tls(self.settings.properties):
            return found
        again = startup_offsets(self._cluster, self.settings, places)
        return {place: min(offset, again[place]) for place, offset in found.items()}

    def _limited(self, froms: Mapping[Place, int], ends: dict[Place, int], limit: Limit) -> dict[Place, int]:
        waiting = {place: ends[place] - froms[place] for place in ends}
        total = sum(waiting.values())
        allowed = limit.rows if limit.rows is not None else total
        # Brokers report offsets but no sizes, so a limit in bytes is converted by the mean of a sample.
        if limit.bytes is not None and total:
            allowed = min(allowed, max(1, int(limit.bytes / self._mean_bytes(froms, waiting, limit.bytes))))
        if allowed >= total:
            return ends
        granted = shares({f"{topic}/{partition}": count for (topic, partition), count in waiting.items()}, allowed)
        return {
            (topic, partition): froms[topic, partition] + granted[f"{topic}/{partition}"] for topic, partition in ends
        }

    def _mean_bytes(self, froms: Mapping[Place, int], waiting: Mapping[Place, int], most: int) -> float:
        """Return the mean bytes per record, from the first few records of the fullest partition."""
        topic, partition = place = max(waiting, key=lambda place: waiting[place])
        first = froms[place]
        sample = Range(0, f"{topic}/{partition}", first, first + min(SAMPLE_RECORDS, waiting[place]))
        return max(1.0, sampled_size(self.settings.properties, sample, most))
