"""Files that say all there is to say: each key is read, and means what its page says."""

from __future__ import annotations

import re

import pytest

from penstock.errors import ConfigError
from penstock.ingest.kafka.config import KafkaConfig
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.settings import FollowSettings, follow_settings
from penstock.pipelines.config import yaml_file
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.first_sample import pauses_of
from penstock.pipelines.job import build
from penstock.pipelines.job.build import mapping_of
from penstock.pipelines.job.source_request import request_of

MYSQL = """
version: 1
pipeline:
  name: shop
  checkpoint: WAREHOUSE/_penstock/other
  trigger: 30s
  until: forever
  parallelism: auto
  max-batch: {rows: 2000000, bytes: 1gb}
  local-time-zone: UTC
  schema.change.behavior: lenient
  on-error: {retries: 10, backoff: 1s..5m}
source:
  type: mysql
  hostname: db.internal
  username: cdc
  password: "${MYSQL_PASSWORD}"
  server-id: 5400-5499
  server-time-zone: Europe/Berlin
  tables: ["shop.*", "crm_[0-9]+.customer"]
  tables.exclude: ["shop.tmp_*"]
  startup: {mode: initial}
  snapshot: {chunk-rows: 50000, parallel: 4, order: [shop.orders, "shop.u*", "*"], resume: true}
  new-tables: stream-only
  online-ddl: [gh-ost, pt-osc]
  heartbeat: 20s
  ssl: {mode: verify-identity, ca: /etc/ssl/db.pem}
transform:
  - source-table: shop.users
    projection: "*, upper(country) as country_code"
    mask: {email: sha256, phone: "keep-last(4)"}
    primary-keys: [id]
route:
  - source-table: "crm_([0-9]+).customer"
    sink-table: ods.customer
    add-columns: {_shard: "$1"}
  - source-table: "shop.*"
    sink-table: "ods.{table}"
sink:
  type: paimon
  catalog: {warehouse: WAREHOUSE, metastore: filesystem}
  table-options: {bucket: "4", "snapshot.num-retained.min": "20"}
  per-table: {ods.orders: {bucket: "16"}}
  type-mapping: [tinyint1-not-bool, to-nullable]
  no-primary-key: append
  metadata-columns: {database_name: _db, table_name: _table, op_ts: _op_ts}
  include.schema.changes: [create.table, add.column, alter.column.type, rename.column]
  exclude.schema.changes: [drop.table, truncate.table]
  compaction: {mode: background, max-parallel: 2}
  expire: {snapshots-retained: 10..100, time-retained: 1h, keep-for-consumers: 24h}
errors:
  bad-record: dead-letter
  dead-letter: {table: ods._dead_letters, max-per-batch: 100, max-share: 0.1%}
  position-lost: resnapshot
observe:
  metrics: 127.0.0.1:9404
  status: file
  open-telemetry: "${NO_SUCH_ENDPOINT:-}"
  log: {format: logfmt, level: info}
  notify: {webhook: "${NO_SUCH_HOOK:-}", events: [stopped, schema-changed, lag>15m, dead-letter]}
"""

KAFKA = """
version: 1
pipeline: {name: orders, trigger: once}
source:
  type: kafka
  properties: {bootstrap.servers: "k1:9092,k2:9092"}
  topic: shop_orders
  value.format: canal-json
  startup: {mode: earliest}
  debezium: {decimal: auto, time: auto, primary-key: from-message-key}
  tombstones: ignore
sink:
  type: paimon
  catalog: {warehouse: WAREHOUSE}
  table: ods.orders
  primary-keys: [id]
  partition-keys: [dt]
  computed-columns: ["dt=date_format(create_time, yyyy-MM-dd)"]
  schema-sample: {records: 500, wait: 30s}
errors: {bad-record: dead-letter}
"""


def read(text: str, **changed: str) -> PipelineSpec:
    for old, new in changed.items():
        text = re.sub(rf"(?m)\b{old.replace('_', '-')}: [^\n{{}},]+", f"{old.replace('_', '-')}: {new}", text)
    return yaml_file.read(text.replace("WAREHOUSE", "/lake"))


def followed(spec: PipelineSpec) -> FollowSettings:
    assert isinstance(spec.source, MySqlConfig)
    return follow_settings(spec.source, request_of(spec))


def test_a_mysql_file_with_all_keys_is_a_pipeline() -> None:
    spec = read(MYSQL)
    job, settings = build.job(spec), followed(spec)
    assert (spec.pipeline.parallelism, job.readers, job.background.compaction_tasks) == (None, 4, 2)
    assert (job.retry.first_seconds, job.retry.longest_seconds) == (1, 300)
    assert settings.rereads_when_lost
    assert settings.keyless
    assert not settings.new_tables
    assert isinstance(spec.source, MySqlConfig)
    assert spec.source.heartbeat == 20
    assert ("_op_ts", "op_ts") in mapping_of(spec, job.warehouse).new_tables.metadata


def test_expiry_becomes_table_options_and_these_win() -> None:
    options = read(MYSQL).sink.options
    assert options["snapshot.num-retained.min"] == "20"
    assert options["snapshot.num-retained.max"] == "100"
    assert options["snapshot.time-retained"] == "3600000 ms"
    assert options["consumer.expiration-time"] == "86400000 ms"


def test_tables_are_copied_in_the_order_of_the_file() -> None:
    settings = followed(read(MYSQL))
    waiting = [("shop", "a"), ("shop", "users"), ("crm_1", "customer"), ("shop", "orders")]
    names = [".".join(name) for name in sorted(waiting, key=settings.rank)]
    assert names == ["shop.orders", "shop.users", "shop.a", "crm_1.customer"]


def test_a_kafka_file_with_all_keys_is_a_pipeline() -> None:
    spec = read(KAFKA)
    assert isinstance(spec.source, KafkaConfig)
    assert spec.source.startup.mode == "earliest-offset"
    assert (spec.sink.database, spec.sink.table) == ("ods", "orders")
    assert spec.pipeline.until == "caught-up"
    look = build.job(spec).first_look
    assert look is not None
    assert (look.records, sum(look.pauses)) == (500, 30)


def test_pauses_add_up_to_their_limit() -> None:
    assert pauses_of(0) == ()
    assert pauses_of(10) == (1, 2, 4, 3)


@pytest.mark.parametrize(
    ("trigger", "until", "seconds"), [("continuous", "forever", 0), ("available-now", "caught-up", 30)]
)
def test_triggers_have_the_names_of_spark(trigger: str, until: str, seconds: float) -> None:
    pipeline = read(KAFKA.replace("once", trigger)).pipeline
    assert (pipeline.until, pipeline.trigger) == (until, seconds)


def test_a_bounded_trigger_ends_the_run() -> None:
    with pytest.raises(ConfigError, match="remove  until: forever"):
        read(KAFKA.replace("trigger: once", "trigger: once, until: forever"))


def test_compaction_mode_none_creates_write_only_tables() -> None:
    assert read(MYSQL.replace("mode: background", "mode: none")).sink.options["write-only"] == "true"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("local-time-zone: UTC", "local-time-zone: Mars", "write for example Europe/Berlin"),
        ("local-time-zone: UTC", "local-time-zone: '+02:00'", "Etc/GMT-8 for"),
        ("{mode: initial}", "{timestamp-millis: 5}", "timestamp-millis has no effect without  mode: timestamp"),
        ("{mode: initial}", "{file: bin.1, pos: 4}", "file has no effect without  mode: specific-offset"),
        ("new-tables: stream-only", "new-tables: ignore", "list the tables"),
        ("resume: true", "resume: no", "resume"),
        ("snapshots-retained: 10..100", "snapshots-retained: many", "is not allowed here"),
        ("metastore: filesystem", "metastore: glue", "metastore: glue is not supported"),
        ("position-lost: resnapshot", "position-lost: ignore", "'fail' or 'resnapshot'"),
        ("online-ddl: [gh-ost, pt-osc]", "online-ddl: [gh-ost]", "always recognised: remove it"),
    ],
)
def test_invalid_values_are_refused_with_their_line(old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read(MYSQL.replace(old, new))
    assert caught.value.facts["line"]


@pytest.mark.parametrize("sink", ["table: a.b.c", "table: a.b.c, database: a", "table: ods.orders, database: dwh"])
def test_a_target_that_is_not_one_table_of_one_database_is_refused(sink: str) -> None:
    with pytest.raises(ConfigError, match="is not one table") as caught:
        read(KAFKA.replace("  table: ods.orders", "  " + sink.replace(", ", "\n  ")))
    assert caught.value.facts["line"]


def test_only_sources_with_tables_can_read_them_again() -> None:
    with pytest.raises(ConfigError, match="does not support reading tables again"):
        read(KAFKA.replace("bad-record: dead-letter", "position-lost: resnapshot"))


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("hostnam: x", "did you mean hostname"),
        ("checkpoint: x", "move `checkpoint` to pipeline"),
        ("bucket: 4", None),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_key_or_its_section(key: str, hint: str | None) -> None:
    with pytest.raises(ConfigError, match="is unknown") as caught:
        read(MYSQL.replace("  hostname: db.internal", f"  hostname: db.internal\n  {key}"))
    assert hint is None or hint in (caught.value.hint or "")
