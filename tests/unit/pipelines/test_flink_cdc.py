"""A Flink CDC file as a pipeline of ours."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.run import build
from penstock.pipelines.run.mysql import settings_of
from penstock.pipelines.spec import yaml_file
from penstock.pipelines.spec.mysql_model import MySqlSource

FILE = r"""
source:
  type: mysql
  name: MySQL Source
  hostname: 127.0.0.1
  port: 3307
  username: admin
  password: "${FLINK_CDC_PASSWORD}"
  tables: adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*
  tables.exclude: adb.tmp_\.*
  server-id: 5401-5404
  scan.startup.mode: initial
  scan.incremental.snapshot.chunk.size: 8096
  schema-change.enabled: true

transform:
  - source-table: adb.web_order01
    projection: \*, UPPER(product_name) as product_name
    filter: id > 10 AND order_id > 100
    primary-keys: id
    partition-keys: product_name
    table-options: bucket=2,comment=from source
    description: project fields from source table

route:
  - source-table: adb.\.*
    sink-table: ods.ods_<>
    replace-symbol: <>
  - source-table: bdb.user_table_\.*
    sink-table: ods.users

sink:
  type: paimon
  name: Paimon Sink
  catalog.properties.metastore: filesystem
  catalog.properties.warehouse: /path/warehouse
  catalog.properties.s3.secret-key: "${S3_SECRET}"
  table.properties.bucket: 4
  partition.key: adb.t1:dt,hh;adb.t2:dt
  commit.user: me
  exclude.schema.changes: drop

pipeline:
  name: Sync MySQL Database to Paimon
  parallelism: 4
  schema.operator.uid: x
"""


def test_it_is_read_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        spec = yaml_file.read(FILE)
    assert isinstance(spec.source, MySqlSource)
    assert (spec.source.port, spec.source.server_id) == (3307, "5401-5404")
    assert spec.source.snapshot.chunk_rows == 8096
    assert spec.pipeline.name == "Sync-MySQL-Database-to-Paimon"
    assert (spec.pipeline.parallelism, spec.pipeline.schema_change_behavior) == (4, "lenient")
    assert (spec.sink.catalog.warehouse, spec.sink.table_options) == ("/path/warehouse", {"bucket": "4"})
    assert spec.sink.multiple_table_partition_keys == {"t1": ("dt", "hh"), "t2": ("dt",)}
    assert set(spec.sink.exclude_schema_changes) == {"drop.column", "drop.table"}
    assert spec.transform[0].table_options == {"bucket": "2", "comment": "from source"}
    (warning,) = [record for record in caplog.records if "flink_keys_without_effect" in record.message]
    named = "source.schema-change.enabled,sink.commit.user,pipeline.schema.operator.uid"
    assert set(warning.getMessage().partition("keys=")[2].split(",")) == set(named.split(","))


def test_secrets_of_it_stay_references() -> None:
    spec = yaml_file.read(FILE)
    assert isinstance(spec.source, MySqlSource)
    assert spec.source.password == "${FLINK_CDC_PASSWORD}"
    assert spec.sink.catalog.options == {"s3.secret-key": "${S3_SECRET}"}


def test_its_patterns_take_the_tables_that_flink_cdc_takes() -> None:
    spec = yaml_file.read(FILE)
    assert isinstance(spec.source, MySqlSource)
    takes = settings_of(spec, spec.source).tables.takes
    assert takes("adb", "anything")
    assert not takes("adb", "tmp_1")
    assert takes("bdb", "user_table_7")
    assert not takes("bdb", "user_table_x")
    assert not takes("cdb", "anything")


def test_its_routes_lead_where_flink_cdc_leads() -> None:
    spec = yaml_file.read(FILE)
    shape = build.shape(spec, build.job_warehouse(spec))
    assert shape.target("adb", "web_order01") == "ods.ods_web_order01"
    assert shape.target("bdb", "user_table_2") == "ods.users"
    assert shape.target("app", "orders") == "app.orders"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  type: paimon", "  type: doris", "sink of type doris"),
        ("  hostname: 127.0.0.1", "", "`hostname` is missing"),
        ("    primary-keys: id", "    converter-after-transform: SOFT_DELETE", "no counterpart"),
        ("  parallelism: 4", "  user-defined-function: [x]", "functions of Java"),
        ("  tables: adb", "  tabels: adb", "which tables?"),
    ],
)
def test_what_has_no_counterpart_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read(FILE.replace(old, new, 1))
    assert message in str(caught.value)
