"""Kafka clients from the properties users know: names of the Java client, translated for librdkafka."""

from __future__ import annotations

import logging
import re
import socket
import time
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import ConfigError, SourceError, without_logins
from penstock.ingest.kafka.broker_errors import broker_error, illegible
from penstock.ingest.kafka.properties import client_properties
from penstock.ingest.messages.client_log import Seldom
from penstock.references import masked, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

_T = TypeVar("_T")
log = logging.getLogger(__name__)
_client_log = logging.getLogger("penstock.kafka")  # librdkafka's own log lines
REQUEST_SECONDS = 20.0
# In seconds, for the first connection of a new pipeline, all brokers together.
REACH_SECONDS = 8.0
_READING = {
    # Which records were read is decided by the checkpoint. Offsets committed by the client itself would be ahead of
    # it.
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # The only sign of the end if the last offsets of a range have no records, as after a transaction or log
    # compaction.
    "enable.partition.eof": "true",
    # Any other value would continue silently at another offset if the broker has deleted records.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # Records fetched beyond the end of a range are thrown away, so the queue is small but must never run dry. With the
    # default pause of a second after the queue was full, a task waits longer than it works (measured).
    "queued.max.messages.kbytes": "16384",
    "fetch.queue.backoff.ms": "5",
    "fetch.message.max.bytes": "4194304",
    "fetch.wait.max.ms": "10",
    "socket.keepalive.enable": "true",
    "reconnect.backoff.max.ms": "2000",
}
# The client drops the connection at a larger answer, and asks for it again for ever. A broker sends a record of any
# size, and the Java client reads it.
_LARGEST_ANSWER = 1 << 30
_AROUND_RECORDS = 512  # bytes that an answer has beside its records: the client wants this difference between limits
# A connection that has fallen silent is given up when its first request times out.
_ASKING = {"socket.timeout.ms": f"{REQUEST_SECONDS * 1000:.0f}", "socket.keepalive.enable": "true"}


# `FAIL [rdkafka#producer-1] [thrd:kafka:9092/bootstrap]: kafka:9092/bootstrap: what happened (after 0ms in state ...)`
_CLIENT_LINE = re.compile(
    r"(?P<kind>[A-Z_]+) \[rdkafka#[^\]]*\] (\[thrd:[^\]]*\]: )?((?P<broker>\S+:\d+)/\S+: )?"
    r"(?P<said>.*?)(\s*\(after .*\))?",
    re.DOTALL,
)


class EventLine(logging.Filter):
    """Rewrite a log line of librdkafka as `event=kafka_client ...`, the form of all log lines of Penstock."""

    def filter(self, record: logging.LogRecord) -> bool:
        found = _CLIENT_LINE.fullmatch(record.getMessage())
        if found:
            broker = f" broker={found['broker']}" if found["broker"] else ""
            record.msg = f"event=kafka_client kind={found['kind'].lower()}{broker} reason={found['said'].strip()}"
            record.args = ()
            # The client keeps trying. An error that ends a run is raised separately.
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


_client_log.addFilter(Seldom())
_client_log.addFilter(EventLine())


def check_reachable(properties: Mapping[str, str], *, seconds: float = REACH_SECONDS) -> None:
    """Raise a SourceError if no broker of bootstrap.servers accepts a TCP connection.

    `patiently` retries for two minutes, which is right for a broker that restarts. A new pipeline has never
    connected to its broker, so a wrong address is the likelier reason.
    """
    servers = resolve(properties.get("bootstrap.servers", ""))
    if "@" in servers:
        raise ConfigError(
            "bootstrap.servers contains a login, which has no effect there",
            brokers=without_logins(servers),
            hint="write host:port, and the login as sasl.username and sasl.password",
        )
    addresses = [_address(part) for part in servers.split(",") if part.strip()]
    failures: dict[str, Exception] = {}
    give_up = time.monotonic() + seconds
    for number, (host, port) in enumerate(addresses):
        # Each address gets an equal part of the time left, so that a silent first one does not use it up.
        left = max(give_up - time.monotonic(), 0.1) / (len(addresses) - number)
        try:
            socket.create_connection((host, port), timeout=left).close()
        except (OSError, UnicodeError, OverflowError) as error:
            failures[f"{host}:{port}"] = error
        else:
            return
    if failures:
        raise SourceError(
            "no Kafka broker can be reached",
            brokers=without_logins(servers),
            reason="; ".join(f"{place}: {_reason(error)}" for place, error in failures.items()),
            hint="correct bootstrap.servers, start the broker, or open the firewall between this machine and it",
            retryable=True,
        )


def hosts(properties: Mapping[str, str]) -> list[str]:
    """Return the hosts of bootstrap.servers."""
    servers = resolve(properties.get("bootstrap.servers", ""))
    return [_address(part)[0] for part in servers.split(",") if part.strip()]


def _address(server: str) -> tuple[str, int]:
    """Return host and port of one entry, which may begin with a protocol: `SASL_SSL://db:9093`, `[::1]:9092`."""
    found = re.fullmatch(r"(?:[^/]*//)?(?P<host>\[[^\]]+\]|[^:/]+)(?::(?P<port>\d+))?", server.strip())
    if not found:
        raise ConfigError(
            f"{server.strip()!r} in bootstrap.servers is not an address",
            hint="write host:port, for example kafka:9092",
        )
    return found["host"].strip("[]"), int(found["port"] or 9092)


def _reason(error: Exception) -> str:
    """Return the failure without Python's error number."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(getattr(error, "strerror", None) or error)


def consumer(properties: Mapping[str, str], changed: Mapping[str, str] | None = None) -> Consumer:
    """Return a consumer for explicit assignment: it joins no group and never commits by itself.

    `changed` are settings that differ from those for reading records.
    """
    given = client_properties(properties)
    # librdkafka creates no consumer without a group id, even if the consumer joins no group.
    # By default, this client does not check the checksums of records; the Java client does.
    unless_given = {
        "group.id": "penstock",
        "receive.message.max.bytes": str(_largest_answer(given)),
        "check.crcs": "true",
    }
    settings = unless_given | given | _READING
    if "isolation.level" in properties:
        settings["isolation.level"] = properties["isolation.level"]
    return _made(Consumer, settings | dict(changed or {}))


def consumed(client: Consumer, most: int, seconds: float) -> list[Message]:
    """Return the messages that the client has within this time, at most `most`."""
    try:
        found: list[Message] = client.consume(most, seconds)
    except UnicodeDecodeError as error:
        raise broker_error(illegible()) from error
    return found


def _largest_answer(given: Mapping[str, str]) -> int:
    fetched = given.get("fetch.max.bytes", "")
    return max(_LARGEST_ANSWER, int(fetched) + _AROUND_RECORDS if fetched.isdecimal() else 0)


def admin(properties: Mapping[str, str], heard: Callable[[KafkaError], None] | None = None) -> AdminClient:
    """Return an admin client; `heard` is called, when the client is polled, with errors outside its answers."""
    # A client that does not consume only warns about a consumer's properties.
    skip = ("group.", "fetch.", "session.", "heartbeat.", "max.poll.", "queued.", "isolation.")
    given = {name: value for name, value in client_properties(properties).items() if not name.startswith(skip)}
    settings: dict[str, object] = {**_ASKING, **given}
    if heard is not None:
        settings["error_cb"] = heard
    return _made(AdminClient, settings)


def _made(kind: Callable[..., _T], settings: Mapping[str, object]) -> _T:
    try:
        return kind(dict(settings), logger=_client_log)
    except KafkaException as error:
        reason = str(error.args[0].str())
        # The text of the client quotes the rejected value, which may be a password.
        for name, value in settings.items():
            if isinstance(value, str) and value and masked(name, value) != value:
                reason = reason.replace(value, "***")
        raise ConfigError(
            f"the Kafka client rejects its properties: {reason}",
            hint="set them as  properties.<name>=<value>  with the property names of the Java client or of librdkafka",
        ) from error
