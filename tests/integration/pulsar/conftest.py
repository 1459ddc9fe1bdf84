from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pulsar
import pytest

from tests.servers import launch

_numbers = itertools.count()
# That of the source: the first client of a process decides where all of them log.
_log = logging.getLogger("penstock.pulsar")
# Small messages, so that messages in chunks need not be large.
OPTIONS = ("maxMessageSize=20000", "nettyMaxFrameSizeBytes=60000")


@dataclass
class Broker:
    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.port + 1}"

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(
            f"{self.admin_url}/admin/v2/{path}",
            method=method,
            data=data,
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=240) as answer:
            return json.loads(answer.read() or b"null")

    def topic(self, partitions: int = 0, name: str | None = None) -> str:
        """Create a topic and return its short name. Without partitions it is one partition of its own name."""
        name = name or f"t{next(_numbers)}"
        if partitions:
            self.admin("PUT", f"persistent/public/default/{name}/partitions", partitions)
        else:
            self.admin("PUT", f"persistent/public/default/{name}")
        return name

    @contextmanager
    def client(self, **more: Any) -> Iterator[pulsar.Client]:
        client = pulsar.Client(self.url, logger=_log, **more)
        try:
            yield client
        finally:
            client.close()

    def send(
        self, topic: str, *values: bytes | str, batched: bool = False, chunking: bool = False, **more: Any
    ) -> None:
        """Publish the messages, each in an entry of its own, or all in one, or long ones in several."""
        with self.client() as client:
            producer = client.create_producer(
                topic,
                batching_enabled=batched,
                batching_max_messages=1000,
                batching_max_publish_delay_ms=5000,
                chunking_enabled=chunking,
            )
            for value in values:
                data = value.encode() if isinstance(value, str) else value
                if batched:
                    producer.send_async(data, lambda *_: None, **more)
                else:
                    producer.send(data, **more)
            producer.flush()

    def drop_read(self, topic: str) -> None:
        """Let the broker delete all messages that every subscription has acknowledged, as when its ledger is full."""
        for _ in range(2):
            self.admin("PUT", f"persistent/public/default/{topic}/unload")

    def stop(self) -> None:
        launch.stop("pulsar", self.folder)

    def start(self) -> None:
        launch.start("pulsar", self.folder, self.port, *OPTIONS)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("pulsar")
    with launch.running("pulsar", folder, *OPTIONS) as port:
        yield Broker(port, folder)
