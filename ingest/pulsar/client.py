"""The Pulsar client of a process, its log, and readers that begin at a position."""

from __future__ import annotations

import atexit
import logging
import os
import re
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pulsar

from penstock.errors import ConfigError, SourceError, without_logins
from penstock.ingest.messages.client_log import Seldom
from penstock.ingest.pulsar.errors import DAMAGED, MessagesDamaged
from penstock.ingest.pulsar.option_names import SERVICE_URL
from penstock.ingest.pulsar.position import Position
from penstock.ingest.pulsar.properties import client_arguments, queue_size
from penstock.ingest.pulsar.topics import Place, partition_name
from penstock.references import resolve

if TYPE_CHECKING:
    from _pulsar import Reader

REACH_SECONDS = 8.0
QUEUE = 10_000
_LAST_LINES_S = 0.3
# The client's own log lines. INFO has one for each step of each connection.
client_log = logging.getLogger("penstock.pulsar")
client_log.setLevel(logging.WARNING)

# One client per process and settings, with its connections. The process is part of the key because threads of the
# client do not survive a fork.
_clients: dict[tuple[int, tuple[tuple[str, str], ...]], pulsar.Client] = {}


_CONNECTION = re.compile(r"\[[^\]]* -> ([^\]]*)\]")


class ClientLogLine(logging.Filter):
    """Rewrite a log line of the client as `event=pulsar_client ...`, the form of all log lines of Penstock."""

    def filter(self, record: logging.LogRecord) -> bool:
        # Without the port of the client's side: with it, no two lines are the same.
        text = _CONNECTION.sub(r"[\1]", record.getMessage())
        record.msg, record.args = f"event=pulsar_client reason={text}", ()
        # The client keeps trying. An error that ends a run is raised separately.
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class LateChunks(logging.Filter):
    """The parts of messages in chunks that a reader received without their first part, as ledger and entry.

    The client drops such a part, and says so only in its log. All clients of a process write to the logger of the first
    client; in a task this is the logger of this module.
    """

    _LINE = re.compile(r"Received an uncached chunk .*messageId: \((\d+),(\d+),")

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[int, int]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        line = self._LINE.search(record.getMessage())
        if line is None:
            return True
        if len(self.found) < 10_000:  # a planner only adds, and never looks
            self.found.add((int(line[1]), int(line[2])))
        return False


class DamagedEntries(logging.Filter):
    """The entries that clients dropped because their checksum does not match, or their messages cannot be divided.

    The client reports such an entry only in its log, before a later message arrives.
    """

    _LINE = re.compile(r"\[(\S+), [^\]]*\] Discarding corrupted message at (\d+):(\d+)")

    def __init__(self) -> None:
        super().__init__()
        self._found: set[tuple[str, int, int]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if line := self._LINE.search(record.getMessage()):
            self._found.add((line[1], int(line[2]), int(line[3])))
        return True

    def forget(self, topic: str, first: Position, last: Position) -> None:
        """Forget what earlier readers have dropped of a range."""
        self._found.difference_update(self._of(topic, first, last))

    def require_none(
        self, topic: str, first: Position, last: Position, without: Collection[tuple[int, int]] = ()
    ) -> None:
        """Raise if an entry of the range was dropped, other than those in `without`."""
        for ledger, entry in self.of(topic, first, last):
            if (ledger, entry) not in without:
                raise MessagesDamaged(
                    "messages from Pulsar arrived damaged: the client has dropped an entry",
                    topic=topic,
                    entry=f"{ledger}:{entry}",
                    retryable=True,
                    hint=DAMAGED,
                )

    def of(self, topic: str, first: Position, last: Position) -> list[tuple[int, int]]:
        """Return the dropped entries of a range in order."""
        return sorted(found[1:] for found in self._of(topic, first, last))

    def _of(self, topic: str, first: Position, last: Position) -> list[tuple[str, int, int]]:
        bounds = first.place[:2], last.place[:2]
        return [found for found in self._found.copy() if found[0] == topic and bounds[0] <= found[1:] <= bounds[1]]


late_chunks = LateChunks()
damaged_entries = DamagedEntries()
client_log.addFilter(late_chunks)
client_log.addFilter(damaged_entries)
client_log.addFilter(ClientLogLine())
client_log.addFilter(Seldom())


def client(properties: Mapping[str, str]) -> pulsar.Client:
    """Return the client for these options; ConfigError if it rejects them."""
    key = os.getpid(), tuple(sorted(properties.items()))
    if key not in _clients:
        if not _clients:
            atexit.register(_shut_down)
        _clients[key] = _made(resolve(properties[SERVICE_URL]), client_arguments(properties))
    return _clients[key]


def _shut_down() -> None:
    """Close the clients of this process before Python ends. Without its loggers they write DEBUG lines to the output.

    `Client.shutdown` would wait for threads that wait for the interpreter.
    """
    for (process, _), opened in _clients.items():
        if process == os.getpid():
            with suppress(pulsar.PulsarException):
                opened.close()
    # Threads of the client log its end. One that waits for Python's lock while Python ends aborts the process.
    time.sleep(_LAST_LINES_S)
    _clients.clear()


def _made(service_url: str, arguments: Mapping[str, Any]) -> pulsar.Client:
    try:
        return pulsar.Client(service_url, logger=client_log, **arguments)
    except (pulsar.PulsarException, ValueError) as error:
        raise ConfigError(
            f"the Pulsar client rejects its options: {error}",
            service_url=service_url,
            hint="write pulsar.client.serviceUrl as pulsar://host:6650 or pulsar+ssl://host:6651",
        ) from error


def reader(properties: Mapping[str, str], place: Place, start: Position, queue: int | None = None) -> Reader:
    """Return a reader of the partition that begins after the position.

    If the position is a message, the reader receives this message first. Without that, nothing would show whether the
    broker has deleted messages.
    """
    opened = client(properties).create_reader(
        partition_name(place),
        start.start_id(place[1]),
        receiver_queue_size=queue or queue_size(properties, QUEUE),
        start_message_id_inclusive=True,
    )
    # The class of the package adds a call in Python to each message.
    return opened._reader


def check_reachable(properties: Mapping[str, str], *, seconds: float = REACH_SECONDS) -> None:
    """Raise a SourceError if no broker of the service URL accepts a TCP connection.

    The client itself retries for half a minute, which is right for a broker that restarts. A new pipeline has never
    connected to its broker, so a wrong address is the likelier reason.
    """
    url = resolve(properties[SERVICE_URL])
    found = re.fullmatch(r"(pulsar|pulsar\+ssl|http|https)://([^/]+)/?", url.strip())
    if not found:
        raise ConfigError(
            f"pulsar.client.serviceUrl {without_logins(url)!r} is not a URL of Pulsar",
            hint="write pulsar://host:6650 or pulsar+ssl://host:6651",
        )
    usual = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 8080, "https": 8443}[found[1]]
    failures: list[str] = []
    addresses = [part.strip() for part in found[2].split(",") if part.strip()]
    for address in addresses:
        host, _, port = address.rpartition(":") if re.search(r":\d+$", address) else (address, "", "")
        try:
            socket.create_connection((host.strip("[]"), int(port or usual)), timeout=seconds / len(addresses)).close()
        except (OSError, UnicodeError, OverflowError) as error:
            failures.append(f"{without_logins(address)}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise SourceError(
        "no Pulsar broker can be reached",
        service_url=without_logins(url),
        reason="; ".join(failures),
        hint="correct pulsar.client.serviceUrl, start the broker, or open the firewall between this machine and it",
        retryable=True,
    )
