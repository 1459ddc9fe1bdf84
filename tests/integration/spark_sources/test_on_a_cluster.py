"""Streams of each source, planned by the driver and read by the executors of two workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.pipelines.spark.session import open_session
from tests.chaos.cluster import SETTINGS, running
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.test_formats_alike import INSERTS
from tests.integration.mongodb.sync import MongoPlayground
from tests.integration.mysql.playground import Playground
from tests.integration.postgres.sync import PgPlayground

pytestmark = [
    pytest.mark.spark,
    pytest.mark.mysql,
    pytest.mark.postgres,
    pytest.mark.kafka,
    pytest.mark.mongodb,
    pytest.mark.slow,
]
Options = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with running(tmp_path_factory.mktemp("spark") / "cluster") as cluster:
        settings = dict(setting.split("=", 1) for setting in SETTINGS)
        session = open_session("sources on a cluster", master=cluster.url, settings=settings)
        penstock.register(session)
        yield session
        session.stop()


def sources(
    mysql: Playground, postgres: PgPlayground, mongodb: MongoPlayground, broker: Broker, state: Path
) -> Options:
    """Fill a table, or a topic, of each source with three rows, and return the options of their streams."""
    mysql.start_over()
    mysql.run("CREATE TABLE orders (id INT PRIMARY KEY, v INT)", "INSERT INTO orders VALUES (0, 0), (1, 0), (2, 0)")
    postgres.start_over()
    postgres.create("orders", "id INT PRIMARY KEY, v INT")
    postgres.run("ALTER TABLE orders REPLICA IDENTITY FULL", "INSERT INTO orders VALUES (0, 0), (1, 0), (2, 0)")
    mongodb.db.orders.insert_many([{"_id": number, "v": 0} for number in range(3)])
    topic = broker.topic(partitions=3)
    for number in range(3):
        broker.send(topic, INSERTS["canal-json"](number), partition=number)
    login = {"hostname": "127.0.0.1", "username": "cdc", "password": "cdc"}
    return {
        "mysql": login
        | {
            "port": str(mysql.port),
            "ssl.allow-public-key-retrieval": "true",
            "table": "play.orders",
            "state": str(state),
        },
        "postgres": login
        | {"port": str(postgres.port), "database-name": "play", "slot.name": "clustered", "table": "public.orders"},
        "mongodb": {"hosts": mongodb.hosts, "table": "play.orders"},
        "kafka": {
            "properties.bootstrap.servers": broker.properties["bootstrap.servers"],
            "topic": topic,
            "value.format": "canal-json",
            "startup.mode": "earliest-offset",
        },
    }


def changes(spark: SparkSession, given: Options, folder: Path) -> set[tuple[str, str, int]]:
    """Return the changes that a query on each source reads from where its checkpoint ends."""
    # One after another: Spark waits ten seconds for the process that plans a stream, too little for several at once.
    return {change for kind in given for change in changes_of(kind, spark, given[kind], folder / kind)}


def changes_of(kind: str, spark: SparkSession, options: dict[str, str], folder: Path) -> set[tuple[str, str, int]]:
    rows: set[tuple[str, str, int]] = set()

    def take(batch: DataFrame, _: int) -> None:
        rows.update((kind, row[0], int(row[1])) for row in batch.collect())

    stream = spark.readStream.format(f"{kind}-cdc").options(**options).load()
    chosen = stream.select("rowkind", "_id" if kind == "mongodb" else "id")
    query = chosen.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True).foreachBatch(take)
    query.start().awaitTermination()
    return rows


def test_queries_on_two_workers_continue_after_the_rows_of_the_snapshot(
    spark: SparkSession,
    mysql: Playground,
    postgres: PgPlayground,
    mongodb: MongoPlayground,
    broker: Broker,
    tmp_path: Path,
) -> None:
    given = sources(mysql, postgres, mongodb, broker, tmp_path / "state")
    first = changes(spark, given, tmp_path / "checkpoint")
    assert first == {(kind, "+I", number) for kind in given for number in range(3)}
    for server in (mysql, postgres):
        server.run("UPDATE orders SET v = 1 WHERE id = 0", "DELETE FROM orders WHERE id = 1")
    mongodb.db.orders.update_one({"_id": 0}, {"$set": {"v": 1}})
    mongodb.db.orders.delete_one({"_id": 1})
    broker.send(given["kafka"]["topic"], INSERTS["canal-json"](3), partition=1)
    updated = {(kind, change, 0) for kind in ("mysql", "postgres") for change in ("-U", "+U")}
    deleted = {(kind, "-D", 1) for kind in ("mysql", "postgres", "mongodb")}
    expected = updated | deleted | {("mongodb", "+U", 0), ("kafka", "+I", 3)}
    assert changes(spark, given, tmp_path / "checkpoint") == expected
