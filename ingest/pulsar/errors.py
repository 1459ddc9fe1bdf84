"""Errors of Pulsar brokers and of its client: which pass, which are final, and how long a request is repeated."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import pulsar

from penstock.errors import ConfigError, PositionLost, SourceError, in_one_line, without_logins
from penstock.ingest.patience import patience_seconds
from penstock.ingest.pulsar.position import Position

_T = TypeVar("_T")
log = logging.getLogger(__name__)

PATIENCE_SECONDS = 120.0  # a broker that restarts is back by then
NO_TOPIC = (
    "create the topic, or correct its name. A broker deletes topics without a subscription, by default after a minute:"
    " send the messages again, and start the pipeline at once"
)
ACCEPT_GAP = "use --accept-gap to continue without these messages"
DAMAGED = (
    "the next attempt reads the messages again; if this happens again, check the network and proxies on the way to the "
    "broker, and the broker's log. If the entry is damaged on the broker,  --accept-gap  continues without its "
    "messages"
)
_REFUSALS = (pulsar.AuthenticationError, pulsar.AuthorizationError, pulsar.ErrorGettingAuthenticationData)
_PASSING = (
    pulsar.ConnectError,
    pulsar.Timeout,
    pulsar.NotConnected,
    pulsar.ReadError,
    pulsar.AlreadyClosed,
    pulsar.LookupError,
    pulsar.ServiceUnitNotReady,
    pulsar.BrokerPersistenceError,
    pulsar.BrokerMetadataError,
    pulsar.TooManyLookupRequestException,
    pulsar.UnknownError,
    pulsar.ConsumerBusy,
    pulsar.Interrupted,  # by a signal of this process, which may be a stop
)


def is_passing(error: Exception) -> bool:
    """Return whether a broker answers this while it restarts or hands over, so that a retry helps."""
    return isinstance(error, _PASSING)


def broker_error(error: pulsar.PulsarException, service_url: str, *, topic: str | None = None) -> SourceError:
    """Return an error of the client as a SourceError, which says whether a retry can help."""
    text, service_url = str(error).removeprefix("Pulsar error: "), without_logins(service_url)
    if isinstance(error, _REFUSALS):
        return SourceError(
            f"Pulsar rejected the login: {text}",
            broker=service_url,
            topic=topic,
            hint="check pulsar.client.authPluginClassName and authParams, and the role's permissions in the namespace",
        )
    if isinstance(error, pulsar.TopicNotFound):
        return SourceError(
            "a Pulsar topic does not exist",
            broker=service_url,
            topic=topic,
            hint=NO_TOPIC,
        )
    if isinstance(error, (pulsar.InvalidTopicName, pulsar.InvalidUrl, pulsar.InvalidConfiguration)):
        # A ConfigError, raised where a SourceError is expected, would hide the topic.
        return SourceError(
            f"Pulsar's client rejects a setting: {text}",
            broker=service_url,
            topic=topic,
            hint="correct pulsar.client.serviceUrl, the name of the topic or another setting of  pulsar.*",
        )
    return SourceError(
        f"Pulsar: {text}",
        broker=service_url,
        topic=topic,
        retryable=is_passing(error),
        # A broker does not answer a wrong login, it only closes the connection.
        hint="check that the broker is running, and pulsar.client.serviceUrl, authPluginClassName and authParams"
        if isinstance(error, (pulsar.ConnectError, pulsar.Timeout))
        else None,
    )


def patiently(
    ask: Callable[[], _T],
    service_url: str,
    *,
    topic: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Return the answer of `ask`, retried with growing pauses while the broker is unreachable."""
    began, pause = clock(), 0.2
    while True:
        try:
            return ask()
        except pulsar.PulsarException as error:
            seconds = patience_seconds(PATIENCE_SECONDS)  # asked each time, because a stop ends the wait
            if clock() + pause > began + (seconds if is_passing(error) else 0.0):
                raise broker_error(error, service_url, topic=topic) from error
            # Logged once per request, not for each of its retries.
            if pause == 0.2:
                log.warning("event=waiting_for_pulsar at_most_seconds=%g reason=%s", seconds, in_one_line(error))
        sleep(pause)
        pause = min(pause * 2, 5.0)


class MessagesDamaged(SourceError):
    """Messages arrived damaged, and the client has dropped them."""


def messages_gone(topic: str, partition: int, requested: Position, first_left: Position | None) -> PositionLost:
    """Return the error for a partition whose next messages were deleted; `first_left` is the first that is left."""
    return PositionLost(
        "Pulsar no longer has the message at which the pipeline stopped: it was deleted before the next messages "
        "were read, or the topic was deleted and created again",
        topic=topic,
        partition=None if partition < 0 else partition,
        asked_for=str(requested),
        found=None if first_left is None else str(first_left),
        hint=f"{ACCEPT_GAP}; a longer retention or message TTL of the namespace, or none, prevents this",
    )


def beginning_gone(
    topic: str, partition: int, requested: Position, oldest: Position | None, *, looked_up: bool
) -> PositionLost:
    """Return the error for a first start at an id whose ledger a partition does not have, or may not have.

    `looked_up` if the admin interface has listed the ledgers.
    """
    gone = (
        "the Pulsar partition does not have the ledger of startup.message-id: its messages were deleted, or the id is "
        "that of another topic"
    )
    unknown = (
        "no message of the ledger of startup.message-id is received, and the ledgers of the partition are not known: "
        "its messages may have been deleted, or the id may be that of another topic"
    )
    return PositionLost(
        gone if looked_up else unknown,
        topic=topic,
        partition=None if partition < 0 else partition,
        asked_for=f"{requested.ledger}:{requested.entry}",
        found=None if oldest is None else str(oldest),
        hint=("" if looked_up else "set pulsar.admin.adminUrl, where ledgers are looked up; or ")
        + f"{ACCEPT_GAP} and start with the first message that is left after this id; or start with another id, or"
        " with mode  earliest ,  latest  or  publish-time",
    )


def unread_messages_gone(topic: str, partition: int, subscription: str, *, exists: bool) -> PositionLost:
    """Return the error for a partition that lost messages before any was read; `exists`: the subscription does."""
    deleted = (
        "messages of a Pulsar topic were deleted before any was read: something else than the pipeline acknowledged "
        "them, such as a message TTL"
    )
    gone = (
        "the subscription that keeps the messages of a Pulsar topic is gone: it was deleted, or the topic was deleted "
        "and created again; what was published in between may be lost"
    )
    return PositionLost(
        deleted if exists else gone,
        topic=topic,
        partition=None if partition < 0 else partition,
        subscription=subscription,
        hint=f"{ACCEPT_GAP}; a longer message TTL of the namespace, or none, prevents this" if exists else ACCEPT_GAP,
    )


def needs_admin(reason: str) -> ConfigError:
    """Return the error for a setting that only the admin interface can answer."""
    return ConfigError(f"{reason} needs pulsar.admin.adminUrl", hint="set it, for example to http://broker:8080")
