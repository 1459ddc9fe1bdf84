"""The Pulsar source alone, then with the decoding of its messages: messages per CPU second of this process.

`python -m benchmarks.pulsar [MESSAGES] [RUNS]` starts a broker, publishes canal messages in batches, and reads them.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pulsar

from benchmarks.figures import Figure, record
from penstock.formats import decode
from penstock.formats.change import DecodeOptions
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.source import PulsarSource
from penstock.ingest.source import NO_LIMIT, Offsets
from tests.servers import launch

TOPIC = "shop"
TYPES = {"id": "bigint", "name": "varchar(20)", "note": "varchar(200)"}


def publish(url: str, count: int) -> None:
    client = pulsar.Client(url, logger=logging.getLogger("penstock.pulsar"))
    producer = client.create_producer(
        TOPIC, batching_enabled=True, block_if_queue_full=True, batching_max_publish_delay_ms=10
    )
    for number in range(count):
        message = {
            "data": [{"id": str(number), "name": f"name {number}", "note": "x" * 100}],
            "database": "shop",
            "table": "orders",
            "type": "INSERT",
            "isDdl": False,
            "pkNames": ["id"],
            "mysqlType": TYPES,
            "es": 1700000000000 + number,
            "ts": 1700000000000 + number,
        }
        producer.send_async(json.dumps(message, separators=(",", ":")).encode(), None)
    producer.flush()
    client.close()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(name: str, count: int, work: Callable[[], int]) -> float:
    before = cpu_seconds()
    assert work() == count
    spent = cpu_seconds() - before
    print(f"{name}: {count / spent:,.0f} messages per CPU-s ({spent * 1e6 / count:.2f} us each)", flush=True)
    return count / spent


def main(count: int = 500_000, runs: int = 3) -> None:
    with tempfile.TemporaryDirectory() as folder, launch.running("pulsar", Path(folder)) as port:
        url = f"pulsar://127.0.0.1:{port}"
        publish(url, count)
        source = PulsarSource(
            PulsarSettings({"pulsar.client.serviceUrl": url, "pulsar.consumer.subscriptionName": "benchmark"}, (TOPIC,))
        )
        end: Offsets = source.latest_offsets({}, NO_LIMIT)
        (whole,) = source.plan({}, end, 1)

        def read() -> int:
            return sum(len(fetched.messages) for fetched in source.read(whole))

        def read_and_decode() -> int:
            options = DecodeOptions()
            return sum(
                sum(map(len, decode("canal-json", fetched.messages, options).batches)) for fetched in source.read(whole)
            )

        speeds = [
            (measured("source", count, read), measured("source and canal-json", count, read_and_decode))
            for _ in range(runs)
        ]
        alone, decoded = (median(found) for found in zip(*speeds, strict=True))
        record(Figure("source alone, median", alone, "messages/CPU-s", goal=300_000.0))
        record(Figure("source and decoding of canal-json, median", decoded, "messages/CPU-s"))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
