"""A pipeline as its user describes it: the one object that both flags and YAML files become.

Imports neither Spark nor Arrow.

In files, keys have the names that Flink CDC and Paimon gave them, with dots and hyphens; the attributes here are snake
case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from penstock.ingest.connector_requests import KeylessRule
from penstock.ingest.connectors import connector_of
from penstock.ingest.freshness import FreshnessRules
from penstock.pipelines.config.rules import Behavior, ExpectConfig, RouteConfig, TransformConfig
from penstock.pipelines.config.sink import SinkConfig, default_checkpoint
from penstock.pipelines.config.source_section import Source
from penstock.pipelines.config.table_freshness import check_freshness, freshness_rules
from penstock.settings import Bytes, Names, Seconds, Share, Strict, TimeZone, seconds

EVENTS = ("stopped", "failed", "table-parked", "schema-changed", "dead-letter", "lag>DURATION")


def _nothing(given: object) -> object:
    """Treat an empty string as not set: `"${HOOK:-}"` is empty when the variable is not set."""
    return None if given == "" else given


Optional = Annotated[str | None, BeforeValidator(_nothing)]


class Log(Strict):
    format: Literal["logfmt", "json"] = "logfmt"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Notify(Strict):
    webhook: Optional = Field(
        default=None, description="URL that receives each event as JSON; use a reference to keep it secret"
    )
    events: Names = ("stopped", "failed", "table-parked", "schema-changed", "dead-letter")
    at_most_every: Seconds = Field(
        default=60.0, description="minimum time between two notifications of the same event of the same table"
    )

    @field_validator("events")
    @classmethod
    def _are_known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for event in given:
            if event.startswith("lag>"):
                seconds(event.removeprefix("lag>"))
            elif event not in EVENTS:
                raise ValueError(f"unknown event {event!r}; the events are {', '.join(EVENTS)}")
        return given


class Observe(Strict):
    """Prometheus metrics and the status page share one address; both are off unless it is set."""

    metrics: Optional = Field(default=None, description="host:port for Prometheus metrics and the status page")
    page: bool = Field(default=True, description="serve the status page beside the metrics")
    open_telemetry: Optional = Field(default=None, description="OTLP endpoint for the spans of batches")
    progress: Literal["auto", "always", "never"] = Field(
        default="auto", description="a live line of progress; auto: if standard error is a terminal"
    )
    status: Literal["file"] = Field(
        default="file", description="the data for `penstock status`; always written to the checkpoint"
    )
    log: Log = Log()
    notify: Notify = Notify()

    @field_validator("metrics")
    @classmethod
    def _is_an_address(cls, given: str | None) -> str | None:
        port = "0" if given is None else given.rpartition(":")[2]
        if not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{given!r} is not an address; write for example 127.0.0.1:9404")
        return given


class MaxBatch(Strict):
    rows: int | None = Field(default=None, gt=0)
    bytes: Bytes | None = None


class OnError(Strict):
    retries: int = Field(default=0, ge=0)
    backoff: Seconds = 1.0
    longest_backoff: Seconds = 300.0

    @model_validator(mode="before")
    @classmethod
    def _from_to(cls, given: Any) -> Any:
        """Accept `backoff: 1s..5m` for `backoff` and `longest-backoff` together."""
        backoff = given.get("backoff") if isinstance(given, Mapping) else None
        if not isinstance(backoff, str) or ".." not in backoff:
            return given
        shortest, _, longest = backoff.partition("..")
        return {**given, "backoff": shortest, "longest-backoff": longest}


def _unless_auto(given: object) -> object:
    return None if given == "auto" else given


# It is also the name of a folder.
NAME_PATTERN = r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*$"


class PipelineConfig(Strict):
    name: str = Field(default="penstock", pattern=NAME_PATTERN)
    checkpoint: str | None = None  # default: <warehouse>/_penstock/<name>
    trigger: Seconds = 30.0
    until: Literal["forever", "caught-up"] = "forever"
    parallelism: Annotated[int | None, BeforeValidator(_unless_auto)] = Field(default=None, gt=0)  # tasks per batch
    spark: Literal["when-needed", "always"] = Field(
        default="when-needed",
        description="when-needed: a run on this machine reads and writes batches of up to a million records in its own"
        " process, and starts Spark for the first batch that is larger; always: Spark reads and writes all batches",
    )
    max_batch: MaxBatch = MaxBatch()
    local_time_zone: TimeZone = "UTC"
    on_error: OnError = OnError()
    accept_replay: bool = False
    resume_from_tables: bool = False
    accept_gap: bool = False
    retry_parked: bool = False
    resnapshot: bool = False  # empty the tables and read them again
    reset: Names = ()  # the same for single tables of the warehouse
    schema_change_behavior: Behavior = Field(default="evolve", alias="schema.change.behavior")

    @model_validator(mode="before")
    @classmethod
    def _by_sparks_triggers(cls, given: Any) -> Any:
        """Translate Spark's trigger names.

        `once` and `available-now` end when caught up; `continuous` starts a batch as soon as the last one ended
        and there are new records.
        """
        trigger = given.get("trigger") if isinstance(given, Mapping) else None
        if trigger == "continuous":
            return {**given, "trigger": "0s"}
        if trigger not in {"once", "available-now"}:
            return given
        if given.get("until", "caught-up") != "caught-up":
            raise ValueError(f"trigger {trigger} ends when it has caught up: remove  until: {given['until']}")
        return {key: value for key, value in given.items() if key != "trigger"} | {"until": "caught-up"}


class SelectionConfig(Strict):
    """Selects the source tables to capture by regular expressions that must match the full name; exclusion wins."""

    including_tables: str = ".*"
    excluding_tables: str | None = None
    including_dbs: str = ".*"
    excluding_dbs: str | None = None


class BadRecordLimits(Strict):
    """If one batch has more bad records than these limits, the job stops. The share applies only above ten bad
    records.
    """

    max_per_batch: int = Field(default=1000, ge=0)
    max_share: Share = 0.1


class DeadLetter(BadRecordLimits):
    table: str | None = None  # default: __penstock_dead_letters in the sink's database


class Errors(Strict):
    isolate: bool = False
    bad_record: Literal["fail", "skip", "dead-letter"] = "fail"
    dead_letter: DeadLetter = DeadLetter()
    skip: BadRecordLimits = BadRecordLimits()
    position_lost: Literal["fail", "resnapshot"] = Field(
        default="fail",
        description=(
            "databases and tables as sources: if the required log is lost, stop, or empty the tables and read them "
            "again"
        ),
    )


class PipelineSpec(Strict):
    # Scalars of files arrive as strings.
    version: Annotated[Literal[1], BeforeValidator(lambda given: 1 if given == "1" else given)] = 1
    pipeline: PipelineConfig = PipelineConfig()
    source: Source
    selection: SelectionConfig = SelectionConfig()
    transform: tuple[TransformConfig, ...] = ()
    expect: tuple[ExpectConfig, ...] = ()
    route: tuple[RouteConfig, ...] = ()
    sink: SinkConfig
    errors: Errors = Errors()
    observe: Observe = Observe()

    @model_validator(mode="after")
    def _fits_its_source(self) -> PipelineSpec:
        capabilities = connector_of(self.source).capabilities
        if self.errors.position_lost == "resnapshot" and not capabilities.rereads_tables:
            raise ValueError(
                f"a source of type {self.source.type} does not support reading tables again: set position-lost to fail"
            )
        if self.errors.bad_record != "dead-letter" and any(
            expectation.action == "dead-letter" for expectation in self.expect
        ):
            raise ValueError(
                "an expectation has the action dead-letter, and there is no table for dead letters: set "
                "errors: {bad-record: dead-letter}"
            )
        if self.pipeline.resnapshot and self.pipeline.reset:
            raise ValueError("resnapshot reads all tables again: remove reset")
        by_messages = not capabilities.describes_tables
        if self.sink.no_primary_key not in {None, "append"} and by_messages and self.sink.table is not None:
            raise ValueError(
                "all source tables are written to one table, with or without a key: set no-primary-key to append"
            )
        defers, trigger = capabilities.defers_ranges, self.pipeline.trigger
        check_freshness(self.route, self.sink, trigger, self.source.type, defers=defers)
        return self

    @property
    def freshness(self) -> FreshnessRules:
        """How often source tables are committed."""
        return freshness_rules(self.route, self.sink)

    @property
    def keyless(self) -> KeylessRule:
        """How source tables without a key are treated. Set at the source or at the sink."""
        match self.sink.no_primary_key:
            case "append" | "fail":
                return self.sink.no_primary_key
            case "skip":
                return "leave-out"
        return connector_of(self.source).keyless(self.source)

    @property
    def checkpoint(self) -> str:
        catalog, pipeline = self.sink.catalog, self.pipeline
        return pipeline.checkpoint or default_checkpoint(catalog.warehouse, catalog.metastore, pipeline.name)
