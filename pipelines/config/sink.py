"""The sections of a pipeline file that define the target tables: their place, names, keys and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from penstock.errors import ConfigError
from penstock.pipelines.config.rules import Deletes, EventType
from penstock.settings import Names, Seconds, Strict, Text, errors_in_place
from penstock.table.catalog.registry import DEFAULT, OPTION, catalog_kind, metastores, options_of_store


class NamingConfig(Strict):
    """How a database sync names its tables."""

    table_prefix: str = ""
    table_suffix: str = ""
    table_prefix_db: Text = Field(default_factory=dict)
    table_suffix_db: Text = Field(default_factory=dict)
    table_mapping: Text = Field(default_factory=dict)
    merge_shards: bool = True


class CatalogConfig(Strict):
    warehouse: str
    metastore: str = DEFAULT
    case_sensitive: bool = True
    options: Text = Field(default_factory=dict)

    @property
    def store_options(self) -> Text:
        """Return the options for stores beside the catalog, such as the store of the checkpoint."""
        return options_of_store(self.all_options)

    @property
    def all_options(self) -> Text:
        """Return the options with which the catalog is opened, its kind among them."""
        return dict(self.options) if self.metastore == DEFAULT else {**self.options, OPTION: self.metastore}

    @field_validator("metastore", mode="before")
    @classmethod
    def _is_known(cls, given: object) -> object:
        if given not in metastores():
            with errors_in_place():
                raise ConfigError(
                    f"metastore: {given} is not supported",
                    hint=f"choices are {', '.join(metastores())}. With filesystem, the warehouse is the folder of the "
                    "tables, and another catalog of these tables does not get new columns",
                )
        return given

    @model_validator(mode="before")
    @classmethod
    def _lower_case(cls, given: object) -> object:
        """Convert names to lower case if the kind of catalog does, as Paimon's actions do."""
        if not isinstance(given, Mapping) or not _is_lower_case(given.get("metastore")):
            return given
        written = next((key for key in ("case-sensitive", "case_sensitive") if key in given), None)
        if written and str(given[written]).strip().lower() != "false":
            with errors_in_place():
                raise ConfigError(
                    f"{written}: {given[written]} is not supported by metastore: {given['metastore']}",
                    hint="its names are lower case: remove the option, or set it to false",
                )
        return {**given, written or "case-sensitive": False}


def _is_lower_case(metastore: object) -> bool:
    # The default needs no look at the installed kinds, which takes long.
    if not isinstance(metastore, str) or metastore == DEFAULT or metastore not in metastores():
        return False
    return catalog_kind(metastore).is_lower_case


def default_checkpoint(warehouse: str, metastore: str, pipeline: str) -> str:
    """Return the folder of a pipeline's checkpoint in its warehouse. ConfigError if the warehouse is not a folder."""
    if catalog_kind(metastore).names_warehouse:
        raise ConfigError(
            f"the checkpoint of the pipeline has no place: the warehouse of metastore = {metastore} is not a folder",
            pipeline=pipeline,
            warehouse=warehouse,
            hint="name a folder, as pipeline.checkpoint in the file or as --checkpoint",
        )
    return f"{warehouse.rstrip('/')}/_penstock/{pipeline}"


class Compaction(Strict):
    """`inline`: the write tasks compact. `background`: a Spark job beside the batches compacts; buckets with too many
    sorted runs are still compacted by the next batch, and tables whose changelog or visible rows depend on compaction
    are compacted inline. `none`: new tables get `write-only`, and `penstock compact` must be run. Tables with
    `write-only` are never compacted by the pipeline.
    """

    mode: Literal["inline", "background", "none"] = "inline"
    max_parallel: int | None = Field(
        default=None, gt=0, description="number of tasks of a background compaction; default: a quarter of the slots"
    )
    maintenance_interval: Seconds = 60.0


RETAINED_PATTERN = r"^\d+(\.\.\d+)?$"


class Expire(Strict):
    """When old snapshots expire: an alternative spelling of table options. If both are set, the table options win."""

    snapshots_retained: str | None = Field(
        default=None,
        pattern=RETAINED_PATTERN,
        description="number of snapshots to keep, or a range: `10..100` (`snapshot.num-retained.min`, `.max`)",
    )
    time_retained: Seconds | None = Field(
        default=None, description="how long snapshots are kept (`snapshot.time-retained`)"
    )
    keep_for_consumers: Seconds | None = Field(
        default=None, description="how long an inactive consumer keeps its snapshots (`consumer.expiration-time`)"
    )

    @property
    def options(self) -> Text:
        least, _, most = (self.snapshots_retained or "").partition("..")
        said = {
            "snapshot.num-retained.min": least,
            # A single number is both bounds.
            "snapshot.num-retained.max": most or least,
            "snapshot.time-retained": _millis(self.time_retained),
            "consumer.expiration-time": _millis(self.keep_for_consumers),
        }
        return {key: value for key, value in said.items() if value}


def _millis(seconds: float | None) -> str:
    return "" if seconds is None else f"{round(seconds * 1000)} ms"


class SchemaSample(Strict):
    """The sample of first records from which target tables are created if they do not exist yet."""

    records: int | None = Field(default=None, gt=0, description="number of records; the same as `schema-init-max-read`")
    wait: Seconds | None = Field(default=None, description="how long to wait for a first record (default: 31s)")


def _each_by_itself(given: object) -> object:
    """Accept a list of names, which keep their names, or a mapping that renames them."""
    return {name: name for name in given} if isinstance(given, (list, tuple)) else given


class SinkConfig(Strict):
    """With `table`, all rows go to that one table. Without it, each source table has its own target table."""

    type: Literal["paimon"] = "paimon"
    catalog: CatalogConfig
    database: str | None = None  # default: the source's
    table: str | None = None
    primary_keys: Names = ()
    partition_keys: Names = ()
    multiple_table_partition_keys: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    sync_primary_keys_from_source_schema: bool = True
    computed_columns: tuple[str, ...] = ()
    metadata_columns: Annotated[Text, BeforeValidator(_each_by_itself)] = Field(default_factory=dict)
    metadata_column_prefix: str = ""
    type_mapping: tuple[str, ...] = ()
    table_options: Text = Field(default_factory=dict)
    per_table: dict[str, Text] = Field(default_factory=dict)
    include_schema_changes: tuple[EventType, ...] = Field(default=(), alias="include.schema.changes")
    exclude_schema_changes: tuple[EventType, ...] = Field(default=(), alias="exclude.schema.changes")
    naming: NamingConfig = NamingConfig()
    ignore_incompatible: bool = False
    eager_init: bool = False
    schema_init_max_read: int = Field(default=1000, gt=0)
    wait_for_data: bool = False
    compaction: Compaction = Compaction()
    expire: Expire = Expire()
    schema_sample: SchemaSample = SchemaSample()
    deletes: Deletes = Field(
        default="hard",
        description="`soft`: deleted rows stay, with `_deleted` and `_deleted_at` set; `history`: every version of a"
        " row stays",
    )
    freshness: Seconds | None = Field(
        default=None,
        description="how old tables may become: they are committed once in this time instead of with every batch;"
        " sources: Kafka",
    )
    no_primary_key: Literal["append", "skip", "fail"] | None = Field(
        default=None,
        description="source tables without a key; default as `keyless` of the source, or as the messages state",
    )

    @property
    def options(self) -> Text:
        """Options of all tables that the pipeline creates, from all keys of the file that set options."""
        write_only = {"write-only": "true"} if self.compaction.mode == "none" else {}
        # Later ones win, so that a shorter key of the file does not replace a table option that the user sets.
        return write_only | self.expire.options | self.table_options

    @model_validator(mode="before")
    @classmethod
    def _with_its_database(cls, given: Any) -> Any:
        """Accept `table: ods.orders` for database and table together, also beside `database: ods`."""
        table = given.get("table") if isinstance(given, Mapping) else None
        if not isinstance(table, str) or "." not in table:
            return given
        database, _, name = table.partition(".")
        if given.get("database") in {None, database} and "." not in name:
            return {**given, "database": database, "table": name}
        beside = f" beside database: {given['database']}" if given.get("database") else ""
        raise ValueError(f"table: {table}{beside} is not one table: write  table: database.table")

    @model_validator(mode="after")
    def _has_a_place_for_its_table(self) -> SinkConfig:
        if self.table is not None and self.database is None:
            raise ValueError("table needs a database: add  database: NAME")
        return self
