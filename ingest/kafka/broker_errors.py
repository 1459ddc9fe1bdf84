"""Errors of Kafka brokers: which pass, which are final, and how long a request is repeated."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.errors import SourceError
from penstock.ingest.patience import patience_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
log = logging.getLogger(__name__)
PATIENCE_SECONDS = 120.0  # a broker that restarts is back by then
UNKNOWN_SECONDS = 5.0  # a broker that just started, or a topic just created, is known by then
_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._WAIT_COORD,
    KafkaError._UNKNOWN_BROKER,
    KafkaError._NOENT,  # no partition has a leader: the only broker has just started
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LISTENER_NOT_FOUND,
}
# A topic just created, or a broker just started, may be unknown for a moment.
_UNKNOWN_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


def is_passing(error: KafkaError) -> bool:
    """Return whether a broker answers this while it restarts or hands over, so that a retry helps."""
    return bool(error.code() in _PASSING or error.retriable())


# A client reports a broker that goes away in the middle of a handshake with the same codes as a refusal.
_OF_THE_NETWORK = re.compile("transport|disconnect|timed out|connection", re.IGNORECASE)


def is_refusal(error: KafkaError) -> bool:
    """Return whether credentials or certificates are wrong, which waiting cannot repair."""
    kinds = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
    return error.code() in kinds and not _OF_THE_NETWORK.search(error_text(error))


def refused(error: KafkaError) -> SourceError:
    """Return the error for wrong credentials or certificates, with a hint at the settings to check."""
    return SourceError(
        f"Kafka rejected the connection, or its certificate is not trusted: {error_text(error)}",
        code=error.name(),
        hint="check properties.sasl.* and properties.ssl.*, and that the listener uses this security.protocol",
    )


def error_text(error: KafkaError) -> str:
    """Return the error text without the appended state of the connection."""
    return re.sub(r"\s*\(after [^)]*\)$", "", error.str())


def is_unknown_topic(error: KafkaError) -> bool:
    """Return whether the broker does not know the topic or partition, perhaps only for a moment."""
    return error.code() in _UNKNOWN_YET


def illegible() -> KafkaError:
    """Return the error for a broker's answer that the client cannot decode as text (UnicodeDecodeError)."""
    return KafkaError(KafkaError._BAD_MSG, "the answer of a Kafka broker has text that is not UTF-8")


def stopped() -> KafkaException:
    """Return the error of a request whose wait a stop has ended, which is that of a broker that does not answer."""
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "the wait for the answer of a Kafka broker was ended"))


def patiently(
    ask: Callable[[], _T],
    *,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Return the answer of `ask`, retried with growing pauses while the broker is unreachable.

    SourceError if the broker stays away. An unknown topic is retried for a few seconds only: usually it does not exist.
    """
    began, pause = clock(), 0.2
    while True:
        try:
            return ask()
        except KafkaException as thrown:
            error: KafkaError = thrown.args[0]
            # Asked each time, because a stop ends the wait.
            most = patience_seconds(PATIENCE_SECONDS) if seconds is None else seconds
            allowed = most if is_passing(error) else UNKNOWN_SECONDS if is_unknown_topic(error) else 0.0
            if clock() + pause > began + allowed:
                raise broker_error(error) from thrown
            # Logged once per request, not for each of its retries.
            if pause == 0.2:
                log.warning("event=waiting_for_kafka at_most_seconds=%g reason=%s", allowed, error.str())
        sleep(pause)
        pause = min(pause * 2, 5.0)


_AWAY = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
_UNREACHABLE = (
    "check that a broker is running, that bootstrap.servers is correct, and that no firewall blocks the connection"
)
# The checksum of records does not match, or an answer ends too early.
_GARBLED = {KafkaError._BAD_MSG, KafkaError._UNDERFLOW}
_DAMAGED = (
    "the next attempt reads the data again; if this happens again, check the network and proxies on the way, and the "
    "log files of the broker with  kafka-dump-log.sh --deep-iteration --files <file> . If a file is damaged, make "
    "another replica the leader; without another replica, delete the records up to the damaged one with "
    " kafka-delete-records.sh , and continue with --accept-gap"
)
_GRANT = "grant the user of the pipeline the operation {} of the {}, for example with  kafka-acls --add"
_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _GRANT.format("READ", "topic"),
    KafkaError.GROUP_AUTHORIZATION_FAILED: _GRANT.format("READ", "consumer group")
    + ", or choose another startup mode than group-offsets",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _GRANT.format("DESCRIBE", "cluster"),
}
_HINTS = {**dict.fromkeys(_AWAY, _UNREACHABLE), **_RIGHTS, **dict.fromkeys(_GARBLED, _DAMAGED)}


def is_garbled(error: KafkaError) -> bool:
    """Return whether the error means that a broker's data arrived damaged."""
    return error.code() in _GARBLED


def lacks_right(error: BaseException | None) -> bool:
    """Return whether the client raised this because the user lacks a right, which only somebody else can grant."""
    return isinstance(error, KafkaException) and error.args[0].code() in _RIGHTS


def broker_error(
    error: KafkaError, *, topic: str | None = None, partition: int | None = None, offset: int | None = None
) -> SourceError:
    """Return a client error as a SourceError, which says whether a retry can help."""
    return SourceError(
        f"Kafka: {error.str()}",
        code=error.name(),
        topic=topic,
        partition=partition,
        offset=offset,
        retryable=is_passing(error) or error.code() in _GARBLED,
        hint=_HINTS.get(error.code()),
    )
