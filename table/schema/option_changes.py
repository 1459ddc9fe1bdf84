"""Changes of options of a table, and those that Paimon refuses once the table has snapshots."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import ConfigError
from penstock.table.options.buckets import BUCKET
from penstock.table.options.checks import check_given
from penstock.table.options.kinds import NAMES
from penstock.table.schema.table_schema import TableSchema

# These options determine how existing rows are interpreted, so they cannot change once a table has snapshots.
_IMMUTABLE = (
    "aggregation.remove-record-on-delete",
    "bucket-function.type",
    "bucket-key",
    "data-evolution.enabled",
    "data-file.path-directory",
    "force-lookup",
    "ignore-delete",
    "ignore-update-before",
    "index-file-in-data-file-dir",
    "merge-engine",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "partition",
    "primary-key",
    "rowkind.field",
)


def set_option(schema: TableSchema, key: str, value: str, has_snapshots: bool) -> TableSchema:
    """Return the schema with this value of the option; ConfigError if the value, or the change, is not allowed."""
    check_given({key: value})
    if schema.options.get(key) == value:
        return schema
    if has_snapshots:
        _refuse_immutable(key)
    if key in {"primary-key", "partition"}:
        return _with_keys(schema, key, NAMES.parse(value))
    if key == "bucket" and has_snapshots:
        _check_rescale(schema, value)
    return replace(schema, options={**schema.options, key: value})


def _with_keys(schema: TableSchema, key: str, names: tuple[str, ...]) -> TableSchema:
    given = schema.primary_keys if key == "primary-key" else schema.partition_keys
    if given:
        raise ConfigError(f"the table has a {key} already: {', '.join(given)}", option=key)
    return replace(schema, primary_keys=names) if key == "primary-key" else replace(schema, partition_keys=names)


def reset_option(schema: TableSchema, key: str, has_snapshots: bool) -> TableSchema:
    """Return the schema without the option; ConfigError if it cannot be reset."""
    if key not in schema.options:
        return schema
    if has_snapshots:
        _refuse_immutable(key)
        if key == "bucket":
            raise ConfigError("bucket cannot be reset on a table with snapshots", option=key)
    return replace(schema, options={name: value for name, value in schema.options.items() if name != key})


def is_immutable(key: str) -> bool:
    """Return whether this option cannot change once the table has snapshots."""
    return key in _IMMUTABLE


def _refuse_immutable(key: str) -> None:
    if is_immutable(key):
        raise ConfigError(
            f"{key} cannot change on a table with snapshots: rows already written depend on it",
            option=key,
            hint="create a new table with the option, and insert the rows into it",
        )


def _check_rescale(schema: TableSchema, value: str) -> None:
    old, new = schema.typed[BUCKET], BUCKET.kind.parse(value)
    if old < 1 or new < 1:
        raise ConfigError(
            f"bucket cannot change from {old} to {new} on a table with snapshots",
            hint="only a fixed number of buckets can be changed, to another number above 0",
        )
