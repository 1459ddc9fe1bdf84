"""A pipeline as its user describes it: the one object that flags and YAML files become. No Spark, no Arrow.

Keys have the names that Flink CDC and Paimon gave them, with dots and hyphens; here they are snake case.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.pipelines.spec.mysql_model import MySqlSource
from penstock.pipelines.spec.observing import Observe
from penstock.pipelines.spec.rules import Behavior, EventType, Names, Route, Transform
from penstock.pipelines.spec.strict import Strict, Text
from penstock.pipelines.spec.units import Bytes, Seconds, Share


class MaxBatch(Strict):
    rows: int | None = Field(default=None, gt=0)
    bytes: Bytes | None = None


class OnError(Strict):
    retries: int = Field(default=0, ge=0)
    backoff: Seconds = 1.0
    longest_backoff: Seconds = 300.0


class Pipeline(Strict):
    name: str = Field(default="penstock", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*")
    checkpoint: str | None = None  # default: <warehouse>/_penstock/<name>
    trigger: Seconds = 30.0
    until: Literal["forever", "caught-up"] = "forever"
    parallelism: int | None = Field(default=None, gt=0)  # tasks per batch; default: the cores of the session
    max_batch: MaxBatch = MaxBatch()
    local_time_zone: str = "UTC"
    on_error: OnError = OnError()
    accept_replay: bool = False
    resume_from_tables: bool = False
    accept_gap: bool = False
    retry_parked: bool = False
    resnapshot: bool = False  # MySQL: empty the tables and read them again
    schema_change_behavior: Behavior = Field(default="evolve", alias="schema.change.behavior")


class Startup(Strict):
    mode: Literal["earliest-offset", "latest-offset", "group-offsets", "specific-offsets", "timestamp"] = (
        "group-offsets"
    )
    specific_offsets: str | None = None
    timestamp_millis: int | None = None

    @model_validator(mode="after")
    def _has_what_its_mode_needs(self) -> Startup:
        if self.mode == "specific-offsets" and not self.specific_offsets:
            raise ValueError("startup mode specific-offsets needs specific-offsets")
        if self.mode == "timestamp" and self.timestamp_millis is None:
            raise ValueError("startup mode timestamp needs timestamp-millis")
        return self


def _parts(given: object) -> object:
    """One text may hold several names, parted by commas or semicolons."""
    return tuple(part.strip() for part in re.split("[;,]", given) if part.strip()) if isinstance(given, str) else given


class KafkaSource(Strict):
    type: Literal["kafka"]
    properties: Text
    topic: Annotated[tuple[str, ...], BeforeValidator(_parts)] = ()
    topic_pattern: str | None = None
    value_format: str = Field(alias="value.format")
    schema_registry: Text = Field(default_factory=dict)
    startup: Startup = Startup()

    @model_validator(mode="after")
    def _names_its_topics_one_way(self) -> KafkaSource:
        if bool(self.topic) == bool(self.topic_pattern):
            raise ValueError("kafka_conf must and can only set one of the following options: topic,topic-pattern.")
        if not self.properties.get("bootstrap.servers"):
            raise ValueError("kafka_conf [properties.bootstrap.servers] must be specified.")
        return self


class FilesSource(Strict):
    type: Literal["files"]
    path: str
    pattern: str = "*"
    order: Literal["time", "name"] = "time"
    value_format: str = Field(alias="value.format")


Source = Annotated[KafkaSource | FilesSource | MySqlSource, Field(discriminator="type")]


class Selection(Strict):
    """Which source tables are taken; full matches of regular expressions, excluding wins."""

    including_tables: str = ".*"
    excluding_tables: str | None = None
    including_dbs: str = ".*"
    excluding_dbs: str | None = None


class Naming(Strict):
    """What the tables of a database sync are called."""

    table_prefix: str = ""
    table_suffix: str = ""
    table_prefix_db: Text = Field(default_factory=dict)
    table_suffix_db: Text = Field(default_factory=dict)
    table_mapping: Text = Field(default_factory=dict)
    merge_shards: bool = True


class Catalog(Strict):
    warehouse: str
    metastore: Literal["filesystem"] = "filesystem"
    case_sensitive: bool = True
    options: Text = Field(default_factory=dict)


class Compaction(Strict):
    """inline: by the tasks that write. background: by a Spark job beside them; buckets that pile up are compacted by
    the next batch all the same, and tables whose changelog or rows hang on compaction are compacted inline. Tables with
    `write-only` are left to others in both."""

    mode: Literal["inline", "background"] = "inline"
    maintenance_interval: Seconds = 60.0


class Sink(Strict):
    """With `table` everything goes to that one table, without it each source table has its own."""

    type: Literal["paimon"] = "paimon"
    catalog: Catalog
    database: str | None = None  # default: the source's
    table: str | None = None
    primary_keys: Names = ()
    partition_keys: Names = ()
    multiple_table_partition_keys: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    sync_primary_keys_from_source_schema: bool = True
    computed_columns: tuple[str, ...] = ()
    metadata_columns: tuple[str, ...] = ()
    metadata_column_prefix: str = ""
    type_mapping: tuple[str, ...] = ()
    table_options: Text = Field(default_factory=dict)
    per_table: dict[str, Text] = Field(default_factory=dict)
    include_schema_changes: tuple[EventType, ...] = Field(default=(), alias="include.schema.changes")
    exclude_schema_changes: tuple[EventType, ...] = Field(default=(), alias="exclude.schema.changes")
    naming: Naming = Naming()
    ignore_incompatible: bool = False
    eager_init: bool = False
    schema_init_max_read: int = Field(default=1000, gt=0)
    wait_for_data: bool = False
    compaction: Compaction = Compaction()

    @model_validator(mode="after")
    def _has_a_place_for_its_table(self) -> Sink:
        if self.table is not None and self.database is None:
            raise ValueError("a table needs its database: write  database: NAME  beside it")
        return self


class BadRecordLimits(Strict):
    """More than these in one batch stop the job; a share counts once more than ten records are bad."""

    max_per_batch: int = Field(default=1000, ge=0)
    max_share: Share = 0.1


class DeadLetter(BadRecordLimits):
    table: str | None = None  # default: __penstock_dead_letters in the sink's database


class Errors(Strict):
    isolate: bool = False
    bad_record: Literal["fail", "skip", "dead-letter"] = "fail"
    dead_letter: DeadLetter = DeadLetter()
    skip: BadRecordLimits = BadRecordLimits()


class PipelineSpec(Strict):
    # Files hold texts.
    version: Annotated[Literal[1], BeforeValidator(lambda given: 1 if given == "1" else given)] = 1
    pipeline: Pipeline = Pipeline()
    source: Source
    selection: Selection = Selection()
    transform: tuple[Transform, ...] = ()
    route: tuple[Route, ...] = ()
    sink: Sink
    errors: Errors = Errors()
    observe: Observe = Observe()

    @property
    def checkpoint(self) -> str:
        return self.pipeline.checkpoint or f"{self.sink.catalog.warehouse.rstrip('/')}/_penstock/{self.pipeline.name}"
