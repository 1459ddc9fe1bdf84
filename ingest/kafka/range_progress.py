"""The progress in a range of a Kafka partition, from the records, ends and errors that a consumer returns."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message

from penstock.errors import PositionLost, SourceError
from penstock.ingest.kafka.broker_errors import broker_error, is_garbled, is_passing, is_unknown_topic
from penstock.ingest.patience import is_patient

log = logging.getLogger(__name__)

ACCEPT_GAP = "use --accept-gap to continue without these records"
# A broker answers a fetch that exceeds a quota without records. If one batch of records is larger than the quota of a
# whole window, no client ever gets it.
_QUOTA = (
    "check that the broker serves other clients; if it has a quota for this one, consumer_byte_rate for ten seconds"
    " must be more than the largest batch of records (batch.size of its producers)"
)
# The part of the patience after which a new connection is tried. Rarely, a client stays silent for ever after its
# broker has restarted or a network device has dropped the connection, while a new connection is served at once. Each
# further connection gets twice the time of the one before: a slow broker returns records only with its fourth or fifth
# answer.
_FIRST_PART = 4
# A new leader may not know yet that its last records are committed, so a partition that ends early may still go on.
_FIRST_QUESTION_S = 2.0


class RangeProgress:
    """The state of reading one range: it sorts the answers of the consumer into records, ends and errors."""

    def __init__(self, topic: str, partition: int, end: int, patience: float, *, accept_gap: bool = False) -> None:
        self.topic, self.partition, self.end, self._accept_gap = topic, partition, end, accept_gap
        self._patience = patience
        self._waits = is_patient()  # otherwise a stop is no news: the records of a question are waited for anyway
        self._until = time.monotonic() + patience
        self._silence = patience / _FIRST_PART  # after which there is a new connection
        self._renew_at = self._next_renewal()
        self._asks_after = _FIRST_QUESTION_S
        self._ask_at = time.monotonic() + self._asks_after
        # The offset up to which the partition has no more records to return.
        self._reached = -1
        self._complaint: KafkaError | None = None
        # The error of a gap that is accepted, if the broker still has later records.
        self.deleted: PositionLost | None = None

    def done(self, position: int) -> bool:
        # The position alone does not reach the end if the last offsets of the range have no records.
        return position >= self.end or self._reached >= self.end

    def is_stuck(self) -> bool:
        """Return whether it is time for a new connection: at intervals while no records arrive."""
        if time.monotonic() < self._renew_at:
            return False
        self._silence *= 2
        self._renew_at = self._next_renewal()
        return True

    def ends_early(self) -> bool:
        """Return whether it is time to ask why the partition ends before the end: at growing intervals."""
        if not 0 <= self._reached < self.end or time.monotonic() < self._ask_at:
            return False
        self._asks_after *= 2
        self._ask_at = time.monotonic() + self._asks_after
        return True

    def _next_renewal(self) -> float:
        return time.monotonic() + self._silence

    def records(self, messages: Sequence[Message], position: int) -> Sequence[Message]:
        # Usually there are only records, all before the end: this check needs no Python code per record.
        plain = bool(messages) and not any(map(Message.error, messages)) and messages[-1].offset() < self.end
        records = messages if plain else [message for message in messages if self._is_record(message, position)]
        if records:
            self._until = time.monotonic() + self._patience
            self._silence = self._patience / _FIRST_PART
            self._renew_at = self._next_renewal()
        elif self.done(position):
            return records
        elif self._waits and not is_patient():
            raise self._error(SourceError, "a stop ended the wait for records from Kafka", position)
        elif time.monotonic() > self._until:
            if self._reached < 0 or not self._accept_gap:
                raise self._no_records(position)
            args = self.topic, self.partition, position, self.end
            log.warning("event=gap_accepted topic=%s partition=%d from=%d to=%d", *args)
            self._reached = self.end
        return records

    def _is_record(self, message: Message, position: int) -> bool:
        error = message.error()
        if error is not None:
            self._judge(error, message, position)
        elif message.offset() < self.end:
            return True
        else:
            self._reached = message.offset()
        return False

    def _judge(self, error: KafkaError, message: Message, position: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._reached = message.offset()
        elif error.code() in (
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
            KafkaError._LOG_TRUNCATION,
        ):
            if not self._concerns(message, position):
                return
            self.deleted = PositionLost(
                "the Kafka broker deleted records before they were read",
                topic=self.topic,
                partition=self.partition,
                offset=position,
                hint=f"{ACCEPT_GAP}; increase retention.ms to prevent this",
            )
            if not self._accept_gap:
                raise self.deleted
        elif is_passing(error) or is_unknown_topic(error):
            self._complaint = error
        elif is_garbled(error) and (is_ours := self._is_ours(message)) is not None:
            # The error may name an offset before the first one that is read: a broker sends the whole batch of records
            # around it. An error behind the end is ignored: it may belong to an earlier assignment.
            if is_ours and (message.offset() or -1) < self.end:
                raise broker_error(error, topic=self.topic, partition=self.partition, offset=position)
        else:
            raise broker_error(error, topic=self.topic, partition=self.partition, offset=position)

    def _concerns(self, message: Message, position: int) -> bool:
        """Return whether an error is about an offset that is still to be read.

        The client keeps such errors of earlier assignments, also of other partitions.
        """
        offset, is_ours = message.offset(), self._is_ours(message)
        if is_ours is None or offset is None or offset < 0:
            return True
        return is_ours and position <= offset < self.end

    def _is_ours(self, message: Message) -> bool | None:
        """Return whether an error is about the partition that is read; None if it names none."""
        place = message.topic(), message.partition()
        return None if place[0] is None else place == (self.topic, self.partition)

    def _no_records(self, position: int) -> SourceError:
        reason = f": {self._complaint.str()}" if self._complaint else ""
        kind, message = SourceError, f"no records from Kafka for {self._patience:g} s{reason}"
        # The broker did answer, and its partition ends before `end`: a new leader has fewer records than the leader
        # during the plan.
        if self._reached >= 0:
            kind, message = PositionLost, "the Kafka partition ends before the planned end of the batch"
        return self._error(kind, message, position, _QUOTA)

    def _error(self, kind: type[SourceError], message: str, position: int, hint: str | None = None) -> SourceError:
        return kind(
            message,
            topic=self.topic,
            partition=self.partition,
            offset=position,
            end=self.end,
            retryable=kind is SourceError,
            hint=ACCEPT_GAP if kind is PositionLost else hint,
        )
