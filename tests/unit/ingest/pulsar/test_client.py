from __future__ import annotations

import logging
import socket

import pytest

from penstock.errors import ConfigError, SourceError
from penstock.ingest.pulsar.client import ClientLogLine, DamagedEntries, LateChunks, check_reachable
from penstock.ingest.pulsar.position import Position


def line(text: str) -> logging.LogRecord:
    return logging.LogRecord("penstock.pulsar", logging.ERROR, "", 0, text, None, None)


def test_parts_of_messages_without_their_beginning_are_remembered() -> None:
    late = LateChunks()
    assert not late.filter(line("Received an uncached chunk (uuid: a-0-1 chunkId: 3, messageId: (12327,4,-1,-1))"))
    assert late.filter(line("Connection refused"))
    assert late.found == {(12327, 4)}


def test_damaged_messages_of_a_range_are_an_error_until_it_is_read_again() -> None:
    damaged = DamagedEntries()
    assert damaged.filter(line("[persistent://a/b/t, reader-5d1, 4] Discarding corrupted message at 12:357"))
    first, last = Position.before(12, 0), Position(12, 400)
    damaged.require_none("persistent://a/b/other", first, last)
    damaged.require_none("persistent://a/b/t", first, Position(12, 356))
    with pytest.raises(SourceError, match="arrived damaged") as caught:
        damaged.require_none("persistent://a/b/t", first, last)
    assert caught.value.retryable
    assert caught.value.facts["entry"] == "12:357"
    damaged.forget("persistent://a/b/t", first, last)
    damaged.require_none("persistent://a/b/t", first, last)


def test_lines_of_the_client_are_events_without_the_port_of_a_connection() -> None:
    record = line("[127.0.0.1:4711 -> 10.0.0.1:6650] Connection closed")
    assert ClientLogLine().filter(record)
    assert record.getMessage() == "event=pulsar_client reason=[10.0.0.1:6650] Connection closed"
    assert record.levelno == logging.WARNING


def test_an_address_where_nothing_listens_is_reported() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # kept, so that nobody else listens there
        port = free.getsockname()[1]
        with pytest.raises(SourceError, match="no Pulsar broker can be reached"):
            check_reachable({"pulsar.client.serviceUrl": f"pulsar://127.0.0.1:{port}"}, seconds=1)


def test_one_address_of_several_is_enough() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        check_reachable({"pulsar.client.serviceUrl": f"pulsar://127.0.0.1:1,127.0.0.1:{port}"}, seconds=60)


def test_a_service_url_needs_its_scheme() -> None:
    with pytest.raises(ConfigError, match="not a URL of Pulsar"):
        check_reachable({"pulsar.client.serviceUrl": "broker:6650"})
