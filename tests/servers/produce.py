"""Send records to a real broker and wait for their delivery; an unreachable broker is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

SECONDS = 60


@contextmanager
def producing(properties: dict[str, str]) -> Iterator[Producer]:
    """A producer all of whose messages the broker has when the block ends."""
    # A leaked producer of a broker that was stopped would fill the output with its complaints.
    producer = Producer({"log_level": 0, **properties})
    yield producer
    taken(producer)


def taken(producer: Producer) -> None:
    waiting = producer.flush(SECONDS)
    if waiting:
        producer.purge()
        raise TimeoutError(f"{waiting} messages were not taken by the broker within {SECONDS} s: is it gone?")
