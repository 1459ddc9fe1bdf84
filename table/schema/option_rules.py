"""Checks of combinations of options, which Paimon makes when a table is created.

The rules of merge engines are checked with the merge.
"""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.schema.options import Options
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, type_json

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
PRODUCERS = ("none", "input", "full-compaction", "lookup")
_TIME_ROOTS = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")


def check_options(schema: TableSchema) -> None:
    """Raise ConfigError for the first combination of options that Paimon refuses."""
    options = Options(schema.options)
    if options.integer("dynamic-bucket.max-buckets", -1) == 0:
        raise ConfigError(
            "dynamic-bucket.max-buckets = 0 leaves no bucket", hint="set a number from 1, or -1 for no limit"
        )
    _check_changelog(schema, options)
    _check_sequence_field(schema, options)
    _check_fields(schema, options)
    _check_deletion_vectors(options)
    _check_retention(schema, options)
    _check_row_tracking(schema, options)


def _engine(options: Options) -> str:
    return options.choice("merge-engine", ENGINES, "deduplicate")


def _producer(options: Options) -> str:
    return options.choice("changelog-producer", PRODUCERS, "none")


def _check_changelog(schema: TableSchema, options: Options) -> None:
    producer = _producer(options)
    if producer != "none" and not schema.primary_keys:
        raise ConfigError(f"changelog-producer = {producer} needs a primary key")
    if _engine(options) == "first-row" and producer not in {"none", "lookup"}:
        raise ConfigError(
            f"merge-engine = first-row cannot have changelog-producer = {producer}", hint="use lookup or none"
        )
    if options.boolean("streaming-read-overwrite", default=False):
        if not schema.primary_keys:
            raise ConfigError(
                "streaming-read-overwrite needs a primary key", hint="use streaming-read-append-overwrite"
            )
        if producer in {"full-compaction", "lookup"}:
            raise ConfigError(f"streaming-read-overwrite would read changes twice with changelog-producer = {producer}")


def _check_sequence_field(schema: TableSchema, options: Options) -> None:
    names = options.names("sequence.field")
    _check_named(schema, names, "sequence.field")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"sequence.field names {name!r} twice")
        if f"fields.{name}.aggregate-function" in schema.options:
            raise ConfigError("a column of sequence.field cannot have an aggregate function", column=name)
    if names and _engine(options) == "first-row":
        raise ConfigError("merge-engine = first-row takes no sequence.field")
    if names and schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys):
        raise ConfigError(
            "sequence.field cannot be used where a key may move between partitions",
            hint="put all partition columns into the primary key",
        )


def _check_fields(schema: TableSchema, options: Options) -> None:
    """Raise ConfigError when an option names a missing column, in its value or in its key."""
    for key in ("rowkind.field", "changelog-producer.row-deduplicate-ignore-fields"):
        _check_named(schema, options.names(key), key)
    for key in schema.options:
        if key.startswith("fields.") and key != "fields.default-aggregate-function":
            _check_named(schema, tuple(key.split(".")[1].split(",")), key)
            if key.endswith(".sequence-group"):
                _check_named(schema, options.names(key), key)
        if key.startswith("file-index.") and key.endswith(".columns"):
            # a member of a map column is named in brackets: col[key]
            _check_named(schema, tuple(name.partition("[")[0] for name in options.names(key)), key)
    time_field = options.text("record-level.time-field", None)
    if time_field is not None:
        _check_named(schema, (time_field,), "record-level.time-field")
        type_ = schema.field(time_field).type
        if not isinstance(type_, AtomicType) or type_.root not in _TIME_ROOTS:
            raise ConfigError(
                "record-level.time-field must be INT, BIGINT or TIMESTAMP", column=time_field, type=type_json(type_)
            )


def _check_named(schema: TableSchema, names: tuple[str, ...], option: str) -> None:
    for name in names:
        if name.strip() not in schema.names:
            raise ConfigError(
                f"the option {option} names {name.strip()!r}, which is no column",
                hint=f"columns are {', '.join(schema.names)}",
            )


def _check_deletion_vectors(options: Options) -> None:
    if not options.boolean("deletion-vectors.enabled", default=False):
        return
    if _engine(options) == "first-row":
        raise ConfigError("merge-engine = first-row needs no deletion vectors: it never replaces a row")
    if _producer(options) == "full-compaction":
        raise ConfigError(
            "deletion vectors cannot have changelog-producer = full-compaction", hint="use lookup, input or none"
        )


def _check_retention(schema: TableSchema, options: Options) -> None:
    least, most = options.integer("snapshot.num-retained.min", 10), options.integer("snapshot.num-retained.max", None)
    for kind, low, high in (
        ("snapshot", least, most),
        (
            "changelog",
            options.integer("changelog.num-retained.min", least),
            options.integer("changelog.num-retained.max", most),
        ),
    ):
        if low < 1:
            raise ConfigError(f"{kind}.num-retained.min should be at least 1")
        if high is not None and low > high:
            raise ConfigError(f"{kind}.num-retained.min = {low} is more than {kind}.num-retained.max = {high}")
    if "partition.expiration-time" in schema.options and not schema.partition_keys:
        raise ConfigError("partition.expiration-time needs a partitioned table")


def _check_row_tracking(schema: TableSchema, options: Options) -> None:
    if not options.boolean("row-tracking.enabled", default=False):
        return
    if schema.primary_keys:
        raise ConfigError("row-tracking.enabled is for tables without a primary key")
    if options.integer("bucket", -1) != -1:
        raise ConfigError("row-tracking.enabled is for tables with bucket = -1")
