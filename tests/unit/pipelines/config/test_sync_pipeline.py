from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.ingest.kafka.config import KafkaConfig, specific_offsets
from penstock.pipelines.config.model import PipelineSpec
from tests.sync_flags import spec_of_action

TABLE = [
    "--warehouse",
    "/w",
    "--database",
    "ods",
    "--table",
    "orders",
    "--kafka_conf",
    "properties.bootstrap.servers=k:9092",
    "--kafka-conf",
    "topic=a;b",
    "--kafka_conf",
    "value.format = canal-json",
]


def table(*words: str) -> PipelineSpec:
    return spec_of_action("kafka-sync-table", [*TABLE, *words])


def database(*words: str) -> PipelineSpec:
    without_table = [word for word in TABLE if word not in {"--table", "orders"}]
    return spec_of_action("kafka-sync-database", [*without_table, *words])


def test_a_table_sync_is_a_pipeline_with_one_table() -> None:
    spec = table("--primary_keys", "pt,id", "--partition-keys=pt", "--table_conf", "bucket=4")
    assert isinstance(spec.source, KafkaConfig)
    assert spec.source.topic == ("a", "b")
    assert spec.source.value_format == "canal-json"
    assert spec.source.properties == {"bootstrap.servers": "k:9092"}
    assert (spec.sink.database, spec.sink.table) == ("ods", "orders")
    assert (spec.sink.primary_keys, spec.sink.partition_keys) == (("pt", "id"), ("pt",))
    assert spec.sink.table_options == {"bucket": "4"}
    assert spec.pipeline.name == "ods.orders"
    assert spec.checkpoint == "/w/_penstock/ods.orders"


def test_two_warehouses_are_refused_unless_they_are_one_place() -> None:
    with pytest.raises(ConfigError, match="--warehouse is /w, and --catalog-conf warehouse=/other"):
        table("--catalog_conf", "warehouse=/other")
    assert table("--catalog-conf", "warehouse=file:///w/").sink.catalog.warehouse == "/w"


def test_options_of_the_catalog_have_their_own_flag() -> None:
    spec = table("--catalog_conf", "warehouse=/w/", "--catalog-conf", "case-sensitive=false", "--catalog-conf", "a=b")
    assert spec.sink.catalog.case_sensitive is False
    assert spec.sink.catalog.options == {"a": "b"}


def test_a_computed_column_keeps_commas_in_its_expression() -> None:
    spec = table("--computed_column", "dt=date_format(t, yyyy-MM-dd)", "--computed_column", "y=year(t)")
    assert spec.sink.computed_columns == ("dt=date_format(t, yyyy-MM-dd)", "y=year(t)")


def test_flags_of_a_database_sync() -> None:
    spec = database(
        "--table-prefix",
        "o_",
        "--table_prefix_db",
        "shop=s_",
        "--table_mapping",
        "a=b",
        "--including_tables",
        "t.*",
        "--multiple_table_partition_keys",
        "t1=a,b",
        "--ignore-incompatible",
        "true",
        "--merge_shards=false",
    )
    assert spec.sink.table is None
    assert spec.sink.naming.table_prefix == "o_"
    assert spec.sink.naming.table_prefix_db == {"shop": "s_"}
    assert spec.sink.naming.table_mapping == {"a": "b"}
    assert spec.sink.naming.merge_shards is False
    assert spec.selection.including_tables == "t.*"
    assert spec.sink.multiple_table_partition_keys == {"t1": ("a", "b")}
    assert spec.sink.ignore_incompatible is True


def test_times_sizes_and_the_synonym_of_the_trigger() -> None:
    spec = table("-Dexecution.checkpointing.interval=3 min", "--max-batch-bytes", "64mb", "--until-caught-up")
    assert spec.pipeline.trigger == 180
    assert spec.pipeline.max_batch.bytes == 64 << 20
    assert spec.pipeline.until == "caught-up"


def test_a_bounded_kafka_source_means_until_caught_up() -> None:
    assert table("--kafka-conf", "scan.bounded.mode=latest-offset").pipeline.until == "caught-up"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tabel", "x"], "did you mean --table?"),
        (["--path", "/x"], "--warehouse"),
        (["--sequence_field", "ts"], "--help  lists the flags"),
        (["--sequence.field", "ts"], "as an option of the table:  --table-conf sequence.field=..."),
        (["--manifest_sort.enabled=true"], "has no effect here: manifests keep the order of commits"),
        (
            ["--kafka-conf", "topic-pattern=x"],
            "must and can only set one of the following options: topic,topic-pattern",
        ),
        (["--kafka-conf", "nonsense"], "Invalid key-value string 'nonsense'. Please use format 'key=value'"),
        (["--table-conf", "bucket"], "write  bucket=value"),
        (["--on-bad-record", "skip", "--on_bad_record", "fail"], "--on-bad-record has two values: 'skip' and 'fail'"),
        (["-Dexecution.checkpointing.interval=1 min", "--trigger", "30s"], "--trigger has two values"),
        (["--isolate", "--isolate", "false"], "--isolate has two values: 'true' and 'false'"),
        (["--kafka-conf", "scan.startup.mode=sometimes"], "earliest-offset"),
        (["--kafka-conf", "scan.startup.mode=timestamp"], "timestamp-millis"),
        (["--kafka-conf", "scan.startup.timestamp-millis=-5"], "timestamp-millis"),
        (["--kafka-conf", "topic=", "--kafka-conf", "topic-pattern=order["], "is not a regular expression"),
        (["--trigger", "soon"], "30s"),
        (["--on-bad-record", "explode"], "dead-letter"),
    ],
)
def test_mistakes_are_reported_with_a_hint(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(*words)
    assert message in str(caught.value)


def test_startup_modes_are_case_insensitive() -> None:
    source = table("--kafka-conf", "scan.startup.mode=Earliest-Offset").source
    assert isinstance(source, KafkaConfig)
    assert source.startup.mode == "earliest-offset"


def test_a_missing_flag_is_named() -> None:
    with pytest.raises(ConfigError, match="--table"):
        spec_of_action("kafka-sync-table", ["--database", "x"])


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("partition:0,offset:42;partition:1,offset:300", {("t", 0): 42, ("t", 1): 300}),
        ("topic:u,partition:2,offset:5", {("u", 2): 5}),
    ],
)
def test_specific_offsets(text: str, offsets: dict[tuple[str, int], int]) -> None:
    assert specific_offsets(text, "t") == offsets


def test_invalid_specific_offsets_show_the_syntax() -> None:
    with pytest.raises(ConfigError, match="should follow the format 'partition:0,offset:42;partition:1,offset:300'"):
        specific_offsets("0:42", "t")


def test_a_topic_that_is_named_twice_is_read_once() -> None:
    source = table("--kafka-conf", "topic=b; a ,b;").source
    assert isinstance(source, KafkaConfig)
    assert source.topic == ("b", "a")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mode", "both"), "Unsupported mode: both"),
        (("--kafka-conf", "scan.bounded.mode=timestamp"), "scan.bounded.mode"),
    ],
)
def test_ambiguous_arguments_are_refused(words: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        database(*words)


@pytest.mark.parametrize(("mode", "until"), [("latest-offset", "caught-up"), ("unbounded", "forever")])
def test_a_bounded_scan_ends_at_the_end_of_the_source(mode: str, until: str) -> None:
    assert table("--kafka-conf", f"scan.bounded.mode={mode}").pipeline.until == until


def test_offsets_of_a_topic_pattern_name_their_topics() -> None:
    assert specific_offsets("topic:t,partition:0,offset:4", "") == {("t", 0): 4}
    with pytest.raises(ConfigError, match="must include the topics"):
        specific_offsets("partition:0,offset:4", "")
