"""One session and one server of each kind for all tests of the Spark sources."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.spark.session import open_session
from tests.integration.kafka.conftest import Broker
from tests.integration.mongodb.conftest import server_address
from tests.integration.mongodb.sync import MongoPlayground
from tests.integration.mysql.playground import Playground
from tests.integration.postgres.sync import PgPlayground
from tests.integration.pulsar.conftest import broker as pulsar_broker
from tests.servers.launch import running

__all__ = ["pulsar_broker", "server_address"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("sources", master="local[2]", settings={"spark.sql.shuffle.partitions": "1"})
    penstock.register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with running("mysql", tmp_path_factory.mktemp("mysql")) as port:
        yield Playground("mysql", port)


@pytest.fixture
def mongodb(server_address: str) -> Iterator[MongoPlayground]:
    with MongoPlayground.at(server_address) as found:
        found.start_over()
        yield found


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("kafka")
    with running("kafka", folder) as port:
        yield Broker(port, folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PgPlayground]:
    # Not below pytest's folders: the server runs as a user of its own, which may not enter them.
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with running("postgres", Path(folder)) as port:
            yield PgPlayground(port)
