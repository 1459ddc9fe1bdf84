"""Each option that acts is drawn by the stories, or excused with a reason."""

from __future__ import annotations

from functools import cache

from penstock.table.options.catalog import OPTIONS
from penstock.table.options.declaration import Effect, TableOption
from tests.stories.plot import story_of
from tests.stories.wider import FIRST

# Enough seeds for each option to be drawn several times.
SEEDS = range(FIRST, FIRST + 6000)
# Options that no story draws, by the reason. Most name the tests that have them.
EXCUSED: dict[str, tuple[str, ...]] = {
    "stories name the keys, the place and the branch of their table themselves": (
        "primary-key",
        "partition",
        "path",
        "branch",
    ),
    "they allow or refuse statements, and change no rows (unit/table/schema/test_changes)": (
        "alter-column-null-to-not-null.disabled",
        "disable-explicit-type-casting",
    ),
    "they need a metastore or another server (integration/hive, interop/test_iceberg, test_done_partitions)": (
        "metastore.partitioned-table",
        "metastore.tag-to-partition",
        "partition.mark-done-action.http.url",
        "partition.mark-done-action.http.params",
        "partition.mark-done-action.http.timeout",
        "metadata.iceberg.uri",
        "metadata.iceberg.database",
        "metadata.iceberg.table",
        "metadata.iceberg.rest.uri",
        "metadata.iceberg.rest.warehouse",
        "metadata.iceberg.rest.prefix",
        "metadata.iceberg.rest.token",
        "metadata.iceberg.rest.credential",
        "metadata.iceberg.rest.scope",
        "metadata.iceberg.rest.oauth2-server-uri",
    ),
    "they belong to pipelines and to Spark, which stories do not have (unit/pipelines, integration/spark_tables)": (
        "scan.watermark.idle-timeout",
        "cdc.skip-corrupt-record",
        "read.changelog",
        "read.stream.maxRowsPerTrigger",
        "pipelines.<name>",
    ),
    "rows are lost or doubled by intention when its time is over (unit/table/dynamic_buckets/test_cross_partition)": (
        "cross-partition-upsert.index-ttl",
    ),
    "a slow store would end commits that stories expect (unit/table/commit)": ("commit.timeout",),
    "stories recognise their commits by the names of users (unit/table/commit/test_committer_options)": (
        "commit.user-prefix",
    ),
    "stories do not sort tables (unit/table/operations)": ("zorder.var-length-contribution",),
    "marks of partitions are no rows, and depend on the clock (unit/table/maintenance/test_done_partitions)": (
        "partition.mark-done-action.mode",
        "partition.idle-time-to-done",
        "partition.time-interval",
    ),
    "tags of users go by the clock, too, or have other names (interop/test_automatic_tags, unit/table/maintenance)": (
        "tag.default-time-retained",
        "tag.time-expire-enabled",
        "tag.batch.customized-name",
        "sink.watermark-time-zone",
    ),
    "Flink alone computes columns (unit/table/schema/test_flink_columns)": (
        "schema.<place>.name",
        "schema.<place>.expr",
        "schema.<place>.data-type",
        "schema.<place>.comment",
        "schema.<place>.metadata",
        "schema.<place>.virtual",
        "schema.watermark.0.rowtime",
        "schema.watermark.0.strategy.expr",
        "schema.watermark.0.strategy.data-type",
    ),
    "options of a read (unit/table/read, simulation/test_histories)": (
        "scan.mode",
        "scan.timestamp",
        "scan.watermark",
        "scan.file-creation-time-millis",
        "incremental-between-timestamp",
        "incremental-to-auto-tag",
        "consumer.ignore-progress",
        "streaming-read-overwrite",
        "streaming-read-append-overwrite",
    ),
}


@cache
def drawn() -> frozenset[str]:
    """Return the keys of all options that stories set on their table, or in a step."""
    keys: set[str] = set()
    for seed in SEEDS:
        story = story_of(seed)
        keys |= story.options.keys()
        keys |= {key for step in story.steps for key in step.get("options", ())}
    return frozenset(keys)


def is_drawn(option: TableOption[object]) -> bool:
    pattern = option.pattern
    return option.key in drawn() or (pattern is not None and any(pattern.fullmatch(key) for key in drawn()))


def test_each_option_that_acts_is_drawn_or_excused() -> None:
    acting = [option for option in OPTIONS if option.effect is Effect.ACTS]
    excused = [key for keys in EXCUSED.values() for key in keys]
    assert {option.key for option in acting if not is_drawn(option)} == set(excused)
    assert len(excused) == len(set(excused))


def test_nothing_is_drawn_that_has_no_effect() -> None:
    acting = [option for option in OPTIONS if option.effect is Effect.ACTS]
    unknown = {
        key for key in drawn() if not any(key == o.key or (o.pattern and o.pattern.fullmatch(key)) for o in acting)
    }
    assert not unknown
