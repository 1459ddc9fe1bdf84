"""A Flink CDC file as a pipeline of ours."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.settings import follow_settings
from penstock.pipelines.config import yaml_file
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import request_of
from penstock.schema_evolution.expressions.parse import parse_expression

COLUMNS = {"add.column", "alter.column.type", "rename.column", "drop.column"}
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


def test_a_file_of_flink_cdc_is_read_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        spec = yaml_file.read(FILE)
    assert isinstance(spec.source, MySqlConfig)
    assert (spec.source.port, spec.source.server_id) == (3307, "5401-5404")
    assert spec.source.snapshot.chunk_rows == 8096
    assert spec.pipeline.name == "Sync-MySQL-Database-to-Paimon"
    assert (spec.pipeline.parallelism, spec.pipeline.schema_change_behavior) == (4, "lenient")
    assert (spec.sink.catalog.warehouse, spec.sink.table_options) == ("/path/warehouse", {"bucket": "4"})
    assert spec.sink.multiple_table_partition_keys == {"t1": ("dt", "hh"), "t2": ("dt",)}
    assert set(spec.sink.exclude_schema_changes) == {"drop.column", "drop.table"}
    assert spec.transform[0].table_options == {"bucket": "2", "comment": "from source"}
    (warning,) = [record for record in caplog.records if "flink_keys_without_effect" in record.message]
    named = "sink.commit.user,pipeline.schema.operator.uid"
    assert set(warning.getMessage().partition("keys=")[2].split(",")) == set(named.split(","))


def test_secrets_of_flink_cdc_files_stay_references() -> None:
    spec = yaml_file.read(FILE)
    assert isinstance(spec.source, MySqlConfig)
    assert spec.source.password == "${FLINK_CDC_PASSWORD}"
    assert spec.sink.catalog.options == {"s3.secret-key": "${S3_SECRET}"}


def test_patterns_match_the_same_tables_as_in_flink_cdc() -> None:
    spec = yaml_file.read(FILE)
    assert isinstance(spec.source, MySqlConfig)
    includes = follow_settings(spec.source, request_of(spec)).tables.includes
    assert includes("adb", "anything")
    assert not includes("adb", "tmp_1")
    assert includes("bdb", "user_table_7")
    assert not includes("bdb", "user_table_x")
    assert not includes("cdb", "anything")


@pytest.mark.parametrize(
    ("written", "events"),
    [
        ("[create.table.event, column]", {"create.table", *COLUMNS}),
        ("table", {"create.table", "drop.table", "truncate.table"}),
        ("[add, alter, rename.column]", {"add.column", "alter.column.type", "rename.column"}),
        ("all", {"create.table", "drop.table", "truncate.table", *COLUMNS}),
        ("drop.column, truncate", {"drop.column", "truncate.table"}),
    ],
)
def test_families_of_schema_changes_include_their_members(written: str, events: set[str]) -> None:
    spec = yaml_file.read(FILE.replace("exclude.schema.changes: drop", f"include.schema.changes: {written}"))
    assert set(spec.sink.include_schema_changes) == events


def test_source_keys_that_change_tables_are_supported() -> None:
    keys = "treat-tinyint1-as-boolean.enabled: false\n  include-comments.enabled: true\n  metadata.list: op_ts"
    spec = yaml_file.read(FILE.replace("schema-change.enabled: true", f"schema-change.enabled: false\n  {keys}"))
    assert isinstance(spec.source, MySqlConfig)
    assert spec.pipeline.schema_change_behavior == "ignore"
    assert (spec.sink.type_mapping, spec.source.schema_comments) == (("tinyint1-not-bool",), True)


def test_routes_with_first_match_are_supported() -> None:
    routes = FILE.replace("  - source-table: bdb.user_table_\\.*", "  - source-table: adb.\\.*")
    spec = yaml_file.read(f"{routes}  route-mode: FIRST_MATCH\n")
    assert [route.sink_table for route in spec.route] == ["ods.ods_<>", "ods.users"]


def test_a_general_route_after_special_ones_is_refused_with_a_hint() -> None:
    """Flink CDC writes such a table to both targets unless the file says otherwise."""
    both = FILE.replace("source-table: bdb.user_table_\\.*", "source-table: adb.\\.*").replace(
        "source-table: adb.\\.*\n    sink-table: ods.ods_<>\n    replace-symbol: <>",
        "source-table: adb.web_order01\n    sink-table: ods.special",
    )
    with pytest.raises(ConfigError, match="a route matches tables of an earlier one") as caught:
        yaml_file.read(both)
    assert "route-mode: FIRST_MATCH" in (caught.value.hint or "")
    spec = yaml_file.read(f"{both}  route-mode: FIRST_MATCH\n")
    mapping = build.mapping_of(spec, build.job_warehouse(spec))
    assert (mapping.target("adb", "web_order01"), mapping.target("adb", "t1")) == ("ods.special", "ods.users")


@pytest.mark.parametrize(
    "expression",
    [
        "TIMESTAMPADD(MONTH, 1, made)",
        "LOCALTIME",
        "CURRENT_TIME",
        "CEILING(price)",
        "UNIX_TIMESTAMP()",
        "UNIX_TIMESTAMP('2026-01-31', 'yyyy-MM-dd')",
        "TRIM(BOTH ' ' FROM name)",
        "FROM_UNIXTIME(id, 'yyyy')",
    ],
)
def test_functions_of_flink_cdc_are_known(expression: str) -> None:
    spec = yaml_file.read(FILE.replace("UPPER(product_name) as product_name", f"{expression} as product_name"))
    transform = build.mapping_of(spec, build.job_warehouse(spec)).table_rules.transform("adb", "web_order01")
    assert transform is not None
    assert [item.name for item in transform.projection] == ["*", "product_name"]


def test_expressions_have_the_rules_of_flink_cdc() -> None:
    filtered = FILE.replace("filter: id > 10 AND order_id > 100", "filter: status <> 'paid' AND name LIKE '^A'")
    assert filtered != FILE
    spec = yaml_file.read(filtered)
    (rule,) = spec.transform
    assert rule.dialect == "flink-cdc"
    transform = build.mapping_of(spec, build.job_warehouse(spec)).table_rules.transform("adb", "web_order01")
    assert transform is not None
    assert transform.filter == parse_expression("not coalesce(status = 'paid', false) and name rlike '^A'")
    with pytest.raises(ConfigError, match="LIKE as a regular expression"):
        yaml_file.read(filtered.replace("'^A'", "'A%'"))


def test_routes_have_the_targets_of_flink_cdc() -> None:
    spec = yaml_file.read(FILE)
    mapping = build.mapping_of(spec, build.job_warehouse(spec))
    assert mapping.target("adb", "web_order01") == "ods.ods_web_order01"
    assert mapping.target("bdb", "user_table_2") == "ods.users"
    assert mapping.target("app", "orders") == "app.orders"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  type: paimon", "  type: doris", "sinks of type doris are not supported"),
        ("  type: mysql", "  type: postgres", "penstock init postgres://user@host:5432/database WAREHOUSE  writes a"),
        ("  type: mysql", "  type: oracle", "sources of type mysql can"),
        ("  hostname: 127.0.0.1", "", "`hostname` is missing"),
        (
            "    primary-keys: id",
            "    converter-after-transform: SOFT_DELETE",
            "converter-after-transform is not supported",
        ),
        ("  parallelism: 4", "  user-defined-function: [x]", "user-defined functions"),
        ("  tables: adb", "  tabels: adb", "Flink CDC does not know the key `tabels`"),
        ("  exclude.schema.changes: drop", "  exclude.schema.changes: [dorp]", "unknown schema change 'dorp'"),
        ("  schema-change.enabled", "  scan.read-changelog-as-append-only.enabled", "converting updates and deletes"),
        (
            "  - source-table: bdb.user_table_\\.*",
            "  - source-table: adb.\\.*",
            "a route matches tables of an earlier one",
        ),
        (
            "route:",
            "  - {source-table: adb.\\.*, filter: id < 10}\n\nroute:",
            "a transform matches tables of an earlier one",
        ),
        (FILE[FILE.index("pipeline:") :], "pipeline: [x]\n", "`pipeline` must be a mapping"),
        (FILE[FILE.index("route:") : FILE.index("sink:\n")], "route: all\n", "`route` must be a list of rules"),
    ],
)
def test_keys_without_a_counterpart_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read(FILE.replace(old, new, 1))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "near"),
    [
        ("\ntransform:", "\ntransfrom:", "transform"),
        ("    projection: ", "    projecton: ", "projection"),
        ("    replace-symbol: ", "    replace-symbl: ", "replace-symbol"),
        ("  scan.startup.mode: ", "  scan.startup.mod: ", "scan.startup.mode"),
        ("  exclude.schema.changes: ", "  exclude.schema.change: ", "exclude.schema.changes"),
        ("  parallelism: ", "  paralelism: ", "parallelism"),
    ],
)
def test_misspelt_keys_are_refused_with_their_line_and_the_nearest_key(old: str, new: str, near: str) -> None:
    text = FILE.replace(old, new, 1)
    with pytest.raises(ConfigError) as caught:
        yaml_file.read(text)
    written = new.strip().removesuffix(":")
    assert (caught.value.hint, caught.value.facts["line"]) == (
        f"did you mean {near}?",
        1 + next(number for number, line in enumerate(text.splitlines()) if written in line),
    )


@pytest.mark.parametrize(
    ("behavior", "excluded", "changes"),
    [
        ("evolve", "drop", "rename.column,truncate.table"),
        ("TRY_EVOLVE", "drop", "rename.column,truncate.table"),
        # A list of excluded changes replaces that of lenient.
        ("lenient", "drop", "truncate.table"),
        ("lenient", "column", "truncate.table,drop.table"),
        ("lenient", "drop, truncate", None),
        ("lenient", "", None),
        ("ignore", "drop", None),
    ],
)
def test_changes_that_flink_cdc_would_follow_are_named(
    behavior: str, excluded: str, changes: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = FILE.replace("exclude.schema.changes: drop\n", f"exclude.schema.changes: [{excluded}]\n")
    yaml_file.read(f"{file}  schema.change.behavior: {behavior}\n")
    named = [record.getMessage() for record in caplog.records if "source_ddl_not_followed" in record.message]
    assert [text.partition("changes=")[2].split()[0] for text in named] == ([changes] if changes else [])


@pytest.mark.parametrize(
    ("behavior", "ddl"),
    [
        ("evolve\nsink.include", ("rename", "delete-all", "delete-all")),  # an empty list is one of all
        ("evolve", ("rename", "delete-all", "delete-all")),
        ("TRY_EVOLVE", ("rename", "delete-all", "delete-all")),
        ("evolve\nsink.exclude", ("rename", "ignore", "delete-all")),
        ("lenient", ("add", "ignore", "ignore")),
    ],
)
def test_changes_of_tables_of_one_database_are_followed_as_flink_cdc_does(
    behavior: str, ddl: tuple[str, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    file = FILE.replace(r"tables: adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*", r"tables: adb.\.*")
    behavior, *lists = behavior.split("\n")
    changes = {"sink.exclude": "exclude.schema.changes: truncate", "sink.include": "include.schema.changes: []"}
    file = file.replace("exclude.schema.changes: drop\n", f"{changes.get(''.join(lists), 'exclude.schema.changes:')}\n")
    spec = yaml_file.read(f"{file}  schema.change.behavior: {behavior}\n")
    source = spec.source
    assert isinstance(source, MySqlConfig)
    assert (source.ddl.rename_column, source.ddl.truncate, source.ddl.drop) == ddl
    assert ("allow-lossless" in spec.sink.type_mapping) == (behavior != "lenient")
    follow_settings(source, request_of(spec))
    named = [record.getMessage() for record in caplog.records if "source_ddl_not_followed" in record.message]
    assert all("changes=drop.column behavior" in text for text in named)
    assert bool(named) == (behavior != "lenient")


def test_table_options_may_have_another_delimiter() -> None:
    written = "sequence.field=made,changed;file-index.bloom-filter.columns=id\n    table-options.delimiter: ;"
    spec = yaml_file.read(FILE.replace("bucket=2,comment=from source", written))
    assert spec.transform[0].table_options == {
        "sequence.field": "made,changed",
        "file-index.bloom-filter.columns": "id",
    }
