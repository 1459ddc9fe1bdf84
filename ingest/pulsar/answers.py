"""Answers of the client that look like those about an empty partition when their connection was lost.

The client returns the id of no message, or that there is no further one, also if the connection ends before the broker
has answered. A partition with messages would be taken for one that has lost them, or would be read from its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import pulsar

if TYPE_CHECKING:
    from _pulsar import MessageId, Reader

_T = TypeVar("_T")


class _Connected(Protocol):
    def is_connected(self) -> bool: ...


def last_message_id(consumer: pulsar.Consumer) -> MessageId:
    """Return the id of the newest message, one below zero for an empty partition. NotConnected without an answer."""

    def is_of_broker(found: MessageId) -> bool:
        # Brokers also name the partition, except that of a topic without partitions.
        return bool(found.entry_id() >= 0 or found.partition() >= 0)

    return _answered(consumer, consumer.get_last_message_id, is_of_broker)


def has_message(reader: Reader) -> bool:
    """Return whether there is a further message. NotConnected without an answer."""
    return bool(_answered(reader, reader.has_message_available, bool))


def _answered(connection: _Connected, ask: Callable[[], _T], is_of_broker: Callable[[_T], bool]) -> _T:
    """Return an answer that is surely one, or the same one twice from a connection that is there afterwards.

    The client waits for a moment before it connects again.
    """
    for _ in range(2):
        found = ask()
        if is_of_broker(found):
            return found
        if not connection.is_connected():
            raise pulsar.NotConnected("the connection was lost before the broker answered")
    return found
