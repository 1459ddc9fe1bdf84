"""Checks of combinations of options, which Paimon makes when a table is created.

The rules of merge engines are checked with the merge.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import ConfigError
from penstock.table.options.buckets import BUCKET, DYNAMIC_BUCKET_MAX_BUCKETS
from penstock.table.options.changelogs import (
    CHANGELOG_PRODUCER,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
    DELETION_VECTORS_ENABLED,
)
from penstock.table.options.commits import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
)
from penstock.table.options.indexes import FILE_INDEX_COLUMNS
from penstock.table.options.merge_engines import (
    FIELD_AGGREGATE_FUNCTION,
    FIELD_SEQUENCE_GROUP,
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
    RECORD_LEVEL_TIME_FIELD,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
)
from penstock.table.options.partitions import PARTITION_EXPIRATION_TIME
from penstock.table.options.scans import STREAMING_READ_OVERWRITE
from penstock.table.options.table_options import TableOptions
from penstock.table.options.writers import ROW_TRACKING_ENABLED
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, type_json

_TIME_ROOTS = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")


def check_options(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise ConfigError for the first combination of options that Paimon refuses.

    Java drops a column that an index or `row-deduplicate-ignore-fields` names, and leaves its name there: what `before`
    has of them, the version that is changed, is not refused.
    """
    options = schema.typed
    if options[DYNAMIC_BUCKET_MAX_BUCKETS] == 0:
        raise ConfigError(
            "dynamic-bucket.max-buckets = 0 allows no bucket", hint="set a number of at least 1, or -1 for no limit"
        )
    _check_changelog(schema, options)
    _check_sequence_field(schema, options)
    _check_fields(schema, options)
    _check_lists(schema, set() if before is None else set(_named_nowhere(before)))
    _check_deletion_vectors(options)
    _check_retention(schema, options)
    _check_row_tracking(schema, options)


def _check_changelog(schema: TableSchema, options: TableOptions) -> None:
    producer = options[CHANGELOG_PRODUCER]
    if producer.writes_changelog and not schema.primary_keys:
        raise ConfigError(
            f"changelog-producer = {producer} needs a primary key",
            hint="remove the option: a stream of a table without a key has its new rows anyway",
        )
    if options[STREAMING_READ_OVERWRITE]:
        if not schema.primary_keys:
            raise ConfigError(
                "streaming-read-overwrite needs a primary key", hint="use streaming-read-append-overwrite"
            )
        if producer.by_compaction:
            raise ConfigError(
                f"streaming-read-overwrite would read changes twice with changelog-producer = {producer}",
                hint="remove streaming-read-overwrite, or set changelog-producer = none or input",
            )


def _check_sequence_field(schema: TableSchema, options: TableOptions) -> None:
    names = options[SEQUENCE_FIELD]
    _check_named(schema, names, "sequence.field")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"sequence.field names {name!r} twice", hint="name each column once")
        if options[FIELD_AGGREGATE_FUNCTION.of(name)] is not None:
            raise ConfigError(
                "a column of sequence.field cannot have an aggregate function",
                column=name,
                hint=f"reset {FIELD_AGGREGATE_FUNCTION.of(name).key}",
            )
    if names and schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys):
        raise ConfigError(
            "sequence.field cannot be used if a key may move between partitions",
            hint="add all partition columns to the primary key",
        )


def _check_fields(schema: TableSchema, options: TableOptions) -> None:
    """Raise ConfigError when an option names a missing column, in its value or in its key."""
    kind_field = options[ROWKIND_FIELD]
    if kind_field:
        _check_named(schema, (kind_field,), ROWKIND_FIELD.key)
    for _, group in options.matching(FIELD_SEQUENCE_GROUP):
        _check_named(schema, options[group], group.key)
    for key in schema.options:
        if key.startswith("fields.") and key != FIELDS_DEFAULT_AGGREGATE_FUNCTION.key:
            _check_named(schema, tuple(key.split(".")[1].split(",")), key)
    time_field = options[RECORD_LEVEL_TIME_FIELD]
    if time_field is not None:
        _check_named(schema, (time_field,), "record-level.time-field")
        type_ = schema.field(time_field).type
        if not isinstance(type_, AtomicType) or type_.root not in _TIME_ROOTS:
            raise ConfigError(
                "record-level.time-field must be INT, BIGINT or TIMESTAMP",
                column=time_field,
                type=type_json(type_),
                hint="choose another column, or add one of such a type",
            )


def _check_lists(schema: TableSchema, tolerated: set[tuple[str, str]]) -> None:
    for option, name in _named_nowhere(schema):
        if (option, name) not in tolerated:
            _check_named(schema, (name,), option)


def _named_nowhere(schema: TableSchema) -> Iterator[tuple[str, str]]:
    """Yield the options that list columns of indexes or comparisons, each with a name that is not a column."""
    options, ignored = schema.typed, CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS
    lists = [(ignored.key, options[ignored])]
    # A member of a map column is named in brackets: col[key].
    for _, columns in options.matching(FILE_INDEX_COLUMNS):
        lists.append((columns.key, tuple(name.partition("[")[0] for name in options[columns])))
    yield from ((option, name.strip()) for option, names in lists for name in names if name.strip() not in schema.names)


def _check_named(schema: TableSchema, names: tuple[str, ...], option: str) -> None:
    for name in names:
        if name.strip() not in schema.names:
            raise ConfigError(
                f"the option {option} names {name.strip()!r}, which is not a column",
                hint=f"columns are {', '.join(schema.names)}; remove a dropped one from the option",
            )


def _check_deletion_vectors(options: TableOptions) -> None:
    if not options[DELETION_VECTORS_ENABLED]:
        return
    if options[CHANGELOG_PRODUCER].by_full_compaction:
        raise ConfigError(
            "deletion vectors cannot have changelog-producer = full-compaction", hint="use lookup, input or none"
        )


def _check_retention(schema: TableSchema, options: TableOptions) -> None:
    least, most = options[SNAPSHOT_NUM_RETAINED_MIN], options[SNAPSHOT_NUM_RETAINED_MAX]
    for kind, low, high in (
        ("snapshot", least, most),
        (
            "changelog",
            # Without limits of its own, a changelog has the limits of the snapshots.
            options.get(CHANGELOG_NUM_RETAINED_MIN, least),
            options.get(CHANGELOG_NUM_RETAINED_MAX, most),
        ),
    ):
        if low < 1:
            raise ConfigError(
                f"{kind}.num-retained.min should be at least 1",
                hint="keep one snapshot or more: readers need the newest one",
            )
        if high is not None and low > high:
            raise ConfigError(
                f"{kind}.num-retained.min = {low} is more than {kind}.num-retained.max = {high}",
                hint="raise the maximum, or lower the minimum",
            )
    if options[PARTITION_EXPIRATION_TIME] is not None and not schema.partition_keys:
        raise ConfigError(
            "partition.expiration-time needs a partitioned table",
            hint="remove the option; record-level.expire-time expires rows of a table with a key",
        )


def _check_row_tracking(schema: TableSchema, options: TableOptions) -> None:
    if not options[ROW_TRACKING_ENABLED]:
        return
    if schema.primary_keys:
        raise ConfigError(
            "row-tracking.enabled is for tables without a primary key", hint="remove the option, or the primary key"
        )
    if options[BUCKET] != -1:
        raise ConfigError(
            "row-tracking.enabled is for tables with bucket = -1", hint="set bucket = -1, or remove the option"
        )
