"""format("mysql-cdc"), format("postgres-cdc"), format("mongodb-cdc") and those of brokers, against servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.ingest.source import NO_LIMIT
from penstock.pipelines.spark_cdc.change_stream import TableChangeStream
from penstock.pipelines.spark_cdc.declared_columns import declared_schema
from penstock.pipelines.spark_cdc.query_columns import QueryColumns
from penstock.pipelines.spark_cdc.read_options import CdcRead
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.test_formats_alike import INSERTS
from tests.integration.mongodb.sync import MongoPlayground
from tests.integration.mysql.playground import Playground
from tests.integration.postgres.sync import PgPlayground
from tests.integration.pulsar.conftest import Broker as PulsarBroker
from tests.pages import pages, run_page

pytestmark = [
    pytest.mark.spark,
    pytest.mark.mysql,
    pytest.mark.postgres,
    pytest.mark.kafka,
    pytest.mark.mongodb,
    pytest.mark.pulsar,
    pytest.mark.slow,
]


def loaded(spark: SparkSession, kind: str, options: Mapping[str, object]) -> DataFrame:
    return spark.readStream.format(kind).options(**{name: str(value) for name, value in options.items()}).load()


def run(frame: DataFrame, folder: Path, look: Callable[[list[Row]], None] = lambda _: None) -> list[Row]:
    """Read what is there with the checkpoint in this folder; `look` sees each batch before it counts."""
    found: list[Row] = []

    def take(batch: DataFrame, number: int) -> None:
        rows = batch.orderBy("_cdc_sequence").collect()
        look(rows)
        found.extend(rows)

    query = frame.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True).foreachBatch(take)
    started = query.start()
    started.awaitTermination()
    return found


def shown(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("rowkind", *columns)) for row in rows]


@pytest.fixture
def shop(mysql: Playground, tmp_path: Path) -> dict[str, object]:
    """Options of a stream of play.orders, which has two rows."""
    mysql.start_over()
    mysql.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(20), amount DECIMAL(10, 2))",
        "INSERT INTO orders VALUES (1, 'new', 1.5), (2, 'new', 2.5)",
        "CREATE TABLE orders_of_others (id INT PRIMARY KEY)",
        "INSERT INTO orders_of_others VALUES (99)",
    )
    return {
        "hostname": "127.0.0.1",
        "port": mysql.port,
        "username": "cdc",
        "password": "cdc",
        "ssl.allow-public-key-retrieval": "true",
        "table": "play.orders",
        "state": tmp_path / "state",
    }


def test_mysql_from_the_snapshot_into_the_log_over_restarts(
    spark: SparkSession, mysql: Playground, shop: dict[str, object], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def dies_first(_: list[Row]) -> None:
        raise RuntimeError("the process ends in the first batch")

    with pytest.raises(PySparkException, match="in the first batch"):
        run(loaded(spark, "mysql-cdc", shop), checkpoint, dies_first)
    assert shown(run(loaded(spark, "mysql-cdc", shop), checkpoint), "id", "status") == [
        ("+I", 1, "new"),
        ("+I", 2, "new"),
    ]
    mysql.run(
        "UPDATE orders SET status = 'paid' WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "INSERT INTO orders_of_others VALUES (100)",
    )
    seen: list[list[Row]] = []

    def dies(rows: list[Row]) -> None:
        seen.append(rows)
        raise RuntimeError("the process ends before the batch counts")

    with pytest.raises(PySparkException, match="before the batch counts"):
        run(loaded(spark, "mysql-cdc", shop), checkpoint, dies)
    mysql.run("INSERT INTO orders VALUES (3, 'new', 3.5)")
    after = run(loaded(spark, "mysql-cdc", shop), checkpoint)
    # The repeated batch is the same in each value, and the next one follows it.
    assert after[:3] == seen[0]
    assert shown(after, "id", "status") == [("-U", 1, "new"), ("+U", 1, "paid"), ("-D", 2, "new"), ("+I", 3, "new")]
    assert {row["_cdc_table"] for row in after} == {"orders"}
    assert run(loaded(spark, "mysql-cdc", shop), checkpoint) == []


def test_a_new_column_stops_the_query_and_its_next_start_has_it(
    spark: SparkSession, mysql: Playground, shop: dict[str, object], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    frame = loaded(spark, "mysql-cdc", shop)
    run(frame, checkpoint)
    mysql.run("INSERT INTO orders VALUES (3, 'new', 1)", "ALTER TABLE orders ADD COLUMN note TEXT")
    mysql.run("INSERT INTO orders VALUES (4, 'new', 1, 'n')")
    with pytest.raises(PySparkException, match="columns that the query does not have") as stopped:
        run(frame, checkpoint)
    assert "restart the query" in str(stopped.value)
    rows = run(loaded(spark, "mysql-cdc", shop), checkpoint)
    assert shown(rows, "id", "note") == [("+I", 3, None), ("+I", 4, "n")]


def test_a_query_may_choose_columns_that_the_table_has(
    spark: SparkSession, shop: dict[str, object], tmp_path: Path
) -> None:
    given = {name: str(value) for name, value in shop.items()}
    reader = spark.readStream.format("mysql-cdc").options(**given)
    rows: list[tuple[Any, ...]] = []

    def take(frame: DataFrame, _: int) -> None:
        rows.extend(tuple(row) for row in frame.collect())

    def read(schema: str, folder: str) -> None:
        stream = reader.schema(schema).load().writeStream.trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path / folder)).foreachBatch(take).start().awaitTermination()

    read("id BIGINT, rowkind STRING", "chosen")
    assert sorted(rows) == [(1, "+I"), (2, "+I")]
    with pytest.raises(PySparkException, match="the source has no column 'statsu'") as refused:
        read("id INT, statsu STRING", "misspelt")
    assert "did you mean status?" in str(refused.value)
    with pytest.raises(PySparkException, match="the source does not capture this table") as missing:
        loaded(spark, "mysql-cdc", shop | {"table": "play.order"})
    assert "play.orders" in str(missing.value)
    assert "--primary-keys" not in str(missing.value)


def test_values_that_a_statement_made_do_not_end_a_stream(
    spark: SparkSession, mysql: Playground, shop: dict[str, object], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(loaded(spark, "mysql-cdc", shop), checkpoint)
    mysql.run(
        "ALTER TABLE orders ADD COLUMN a INT DEFAULT 7",
        "ALTER TABLE orders MODIFY status VARCHAR(2), MODIFY id SMALLINT",
        "INSERT INTO orders VALUES (3, 'ok', 1, 8)",
    )
    rows = run(loaded(spark, "mysql-cdc", shop), checkpoint)
    assert shown(rows, "id", "status", "a") == [("+I", 3, "ok", 8)]


def test_postgres_from_the_snapshot_into_the_log(spark: SparkSession, postgres: PgPlayground, tmp_path: Path) -> None:
    postgres.start_over()
    postgres.create("orders", "id INT PRIMARY KEY, status TEXT, at TIMESTAMPTZ")
    postgres.create("keyless", "id INT")
    postgres.run("INSERT INTO orders VALUES (1, 'new', '2026-01-01 00:00+00'), (2, 'new', NULL)")
    options = {
        "hostname": "127.0.0.1",
        "port": postgres.port,
        "username": "cdc",
        "password": "cdc",
        "database-name": "play",
        "slot.name": "orders_stream",
        "table": "public.orders",
    }
    for missing in ("public.order", "public.keyless"):
        with pytest.raises(PySparkException, match="the source does not capture this table"):
            loaded(spark, "postgres-cdc", options | {"table": missing})
    checkpoint = tmp_path / "checkpoint"
    assert len(run(loaded(spark, "postgres-cdc", options), checkpoint)) == 2
    postgres.run("ALTER TABLE orders REPLICA IDENTITY FULL")
    postgres.run("UPDATE orders SET status = 'paid' WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    rows = run(loaded(spark, "postgres-cdc", options), checkpoint)
    assert shown(rows, "id", "status") == [("-U", 1, "new"), ("+U", 1, "paid"), ("-D", 2, "new")]
    confirmed = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = 'orders_stream'"
    before = int(postgres.run(confirmed))
    postgres.run("INSERT INTO orders VALUES (3, 'new', NULL)")
    run(loaded(spark, "postgres-cdc", options), checkpoint)
    postgres.run("INSERT INTO orders VALUES (4, 'new', NULL)")
    run(loaded(spark, "postgres-cdc", options), checkpoint)
    assert int(postgres.run(confirmed)) > before, "the server may forget what Spark has"


def test_mongodb_from_the_snapshot_into_the_log(spark: SparkSession, mongodb: MongoPlayground, tmp_path: Path) -> None:
    orders = mongodb.db.orders
    orders.insert_many([{"_id": number, "status": "new", "at": {"city": "Rome"}} for number in range(3)])
    options = {"hosts": mongodb.hosts, "table": "play.orders"}
    checkpoint = tmp_path / "checkpoint"
    first = run(loaded(spark, "mongodb-cdc", options), checkpoint)
    assert sorted(shown(first, "_id", "at")) == [("+I", str(number), '{"city":"Rome"}') for number in range(3)]
    mongodb.db.others.insert_one({"_id": 99})
    orders.update_one({"_id": 1}, {"$set": {"status": "paid"}})
    orders.delete_one({"_id": 2})
    seen: list[list[Row]] = []

    def dies(rows: list[Row]) -> None:
        seen.append(rows)
        raise RuntimeError("the process ends before the batch counts")

    with pytest.raises(PySparkException, match="before the batch counts"):
        run(loaded(spark, "mongodb-cdc", options), checkpoint, dies)
    after = run(loaded(spark, "mongodb-cdc", options), checkpoint)
    # The repeated batch is the same in each value.
    assert after[: len(seen[0])] == seen[0]
    assert shown(after, "_id", "status") == [("+U", "1", "paid"), ("-D", "2", None)]
    assert {row["_cdc_table"] for row in after} == {"orders"}
    assert run(loaded(spark, "mongodb-cdc", options), checkpoint) == []


def test_pulsar_with_a_range_for_each_partition(
    spark: SparkSession, pulsar_broker: PulsarBroker, tmp_path: Path
) -> None:
    topic = pulsar_broker.topic(partitions=2)
    made = INSERTS["canal-json"]
    pulsar_broker.send(f"{topic}-partition-0", made(0), made(1))
    pulsar_broker.send(f"{topic}-partition-1", made(2))
    options = {
        "properties.pulsar.client.serviceUrl": pulsar_broker.url,
        "properties.pulsar.admin.adminUrl": pulsar_broker.admin_url,
        "properties.pulsar.consumer.subscriptionName": "stream",
        "topic": topic,
        "value.format": "canal-json",
        "state": tmp_path / "state",
    }
    checkpoint = tmp_path / "checkpoint"
    first = run(loaded(spark, "pulsar-cdc", options), checkpoint)
    assert sorted((row["rowkind"], int(row["id"])) for row in first) == [("+I", number) for number in range(3)]
    places = {(row["_cdc_place"], row["_cdc_sequence"]["range"]) for row in first}
    assert len(places) == 2, "one range, and so one task, for each partition"
    pulsar_broker.send(f"{topic}-partition-1", made(3))
    after = run(loaded(spark, "pulsar-cdc", options), checkpoint)
    assert [int(row["id"]) for row in after] == [3]


@pytest.mark.parametrize("value_format", INSERTS)
def test_each_format_of_kafka(broker: Broker, value_format: str) -> None:
    topic = broker.topic()
    for number in range(3):
        broker.send(topic, INSERTS[value_format](number), key=f'{{"id": "{number}"}}')
    options = {
        "properties.bootstrap.servers": broker.properties["bootstrap.servers"],
        "topic": topic,
        "value.format": value_format,
        "startup.mode": "earliest-offset",
    }
    read = CdcRead.of("kafka", options)
    stream = TableChangeStream(QueryColumns.of(read, declared_schema(read)))
    start = stream.initial_offsets()
    end = stream.latest_offsets(start, NO_LIMIT, None)
    rows = [row for task in stream.inputs(start, end) for batch in stream.read(task) for row in batch.to_pylist()]
    stream.close()
    assert [(row["rowkind"], int(row["id"]), row["_cdc_position"]) for row in rows] == [
        ("+I", number, number) for number in range(3)
    ]
    assert {row["_cdc_place"] for row in rows} == {f"{topic}/0"}


@pytest.mark.parametrize("page", pages("servers"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path,
    spark: SparkSession,
    mysql: Playground,
    postgres: PgPlayground,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    mysql.run(
        "DROP DATABASE IF EXISTS shop",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, status VARCHAR(20), amount DECIMAL(10, 2))",
        "INSERT INTO shop.orders VALUES (1, 'new', 1), (2, 'new', 2)",
    )
    postgres.run("DROP DATABASE IF EXISTS shop WITH (FORCE)", "CREATE DATABASE shop OWNER cdc", database="postgres")
    postgres.run(
        "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT)",
        "ALTER TABLE customers OWNER TO cdc",
        "INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bert')",
        database="shop",
    )
    broker.topic(name="shop")
    for number, amount in ((1, 10), (1, 20), (2, 5)):
        data = [{"id": str(number), "amount": str(amount)}]
        message = {"type": "INSERT", "database": "shop", "table": "payments", "pkNames": ["id"], "data": data}
        broker.send("shop", json.dumps(message | {"mysqlType": {"id": "int", "amount": "int"}, "ts": 1}))
    replaced = {
        '"port", "3306"': f'"port", "{mysql.port}"',
        '"port", "5432"': f'"port", "{postgres.port}"',
        "127.0.0.1:9092": broker.properties["bootstrap.servers"],
        "${MYSQL_PASSWORD}": "cdc",
        "/tmp/orders-state": str(tmp_path / "state"),
        # Spark resolves relative paths by the folder in which its JVM was started.
        '"orders-log"': f'"{tmp_path}/orders-log"',
        '"orders-checkpoint"': f'"{tmp_path}/orders-checkpoint"',
    }
    run_page(page, replaced, given={"spark": spark})
