"""Changes of options of a table, and the changes that are refused because rows depend on the old value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.errors import ConfigError
from penstock.table.options.buckets import BUCKET
from penstock.table.options.catalog import find, option_named
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED, DELETION_VECTORS_MODIFIABLE
from penstock.table.options.checks import check_given
from penstock.table.options.definition import BRANCH, PARTITION, PATH, PRIMARY_KEY
from penstock.table.options.kinds import NAMES
from penstock.table.schema.table_schema import TableSchema

# Java lets these change, and then misses the files of partitions whose folders have other names.
_FOLDER_NAMES = ("partition.default-name", "partition.legacy-name")
# These options determine how existing rows are interpreted, or where they are, so they cannot change once a table has
# snapshots.
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
    *_FOLDER_NAMES,
)


def set_option(schema: TableSchema, key: str, value: str, has_snapshots: bool) -> TableSchema:
    """Return the schema with this value of the option; ConfigError if the value, or the change, is not allowed."""
    check_given({key: value})
    refuse_branch(key)
    _refuse_path(key)
    # The value that an option has already is no change, so it is accepted for options that cannot change.
    if schema.options.get(key) == value:
        return schema
    if has_snapshots:
        _refuse_immutable(key)
    # Schema files contain keys as members, not as options.
    if key in {"primary-key", "partition"}:
        return _with_keys(schema, key, NAMES.parse(value))
    if key == "bucket" and has_snapshots:
        _check_rescale(schema, value)
    if key == DELETION_VECTORS_ENABLED.key and has_snapshots:
        _check_vectors(schema, enabled=DELETION_VECTORS_ENABLED.kind.parse(value))
    return replace(schema, options={**schema.options, key: value})


def refuse_branch(key: str) -> None:
    """Raise ConfigError for the option `branch`: reads and writes have it, and a table would ignore it."""
    if key == BRANCH.key:
        hint = "name the branch where it is read or written: t$branch_b, or t /*+ OPTIONS('branch' = 'b') */"
        raise ConfigError("a table cannot have the option branch", hint=hint)


def _refuse_path(key: str) -> None:
    """Raise ConfigError for the option `path`: the files of the table stay where they are."""
    if key == PATH.key:
        raise ConfigError(
            "the folder of a table cannot change",
            option=key,
            paimon_message="Change path is not supported yet.",
            hint="copy the table to another folder with  penstock clone  or  copy-files",
        )


def refuse_other_rules(schema: TableSchema, given: Mapping[str, str]) -> None:
    """Raise ConfigError for options of one read or write that would interpret or place the table's rows differently."""
    for key, text in given.items():
        option = find(key)  # Spark also passes options that do not concern tables
        if option is None or not (is_immutable(option.key) or option in {BUCKET, PATH, DELETION_VECTORS_ENABLED}):
            continue
        parse = option.kind.parse
        if option in {PRIMARY_KEY, PARTITION}:
            own: object = schema.primary_keys if option is PRIMARY_KEY else schema.partition_keys
        else:
            own = schema.typed[option]
        if parse(text) != own:
            raise ConfigError(
                f"{option.key} = {text} cannot be set for one read or write: the rows of the table were written by "
                "another rule",
                option=option.key,
                table_has=",".join(own) or "none"
                if isinstance(own, tuple)
                else schema.options.get(option.key, "the default"),
                paimon_message=_words_of_java(option.key),
                hint="leave the option out, or create the table with it before the write"
                if option is not BUCKET
                else "run  penstock rescale  to rewrite the table",
            )


def _words_of_java(key: str) -> str | None:
    if key == BUCKET.key:
        return "Cannot change bucket number through dynamic options. You might need to rescale bucket."
    # Java lets a job change this, after which deleted rows may come back and keys may be doubled.
    if key in _FOLDER_NAMES or key == DELETION_VECTORS_ENABLED.key:
        return None
    return f"Change '{key}' is not supported yet."


def _with_keys(schema: TableSchema, key: str, names: tuple[str, ...]) -> TableSchema:
    given = schema.primary_keys if key == "primary-key" else schema.partition_keys
    if given:
        raise ConfigError(
            f"the table has a {key} already: {', '.join(given)}",
            option=key,
            hint="leave the option out, or create a new table with it",
        )
    return replace(schema, primary_keys=names) if key == "primary-key" else replace(schema, partition_keys=names)


def reset_option(schema: TableSchema, key: str, has_snapshots: bool, if_exists: bool = False) -> TableSchema:
    """Return the schema without the option; ConfigError if it cannot be reset."""
    _refuse_path(key)
    if key not in schema.options:
        if not if_exists:
            option_named(key)  # a name that is no option at all was meant to be another one
        return schema
    if has_snapshots:
        _refuse_immutable(key)
        if key == "bucket":
            raise ConfigError(
                "bucket cannot be reset on a table with snapshots",
                option=key,
                hint="set the new number of buckets, then rescale the table",
            )
        if key == DELETION_VECTORS_ENABLED.key:
            _check_vectors(schema, enabled=False)
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
    # Existing partitions keep their number of buckets until they are overwritten.
    old, new = schema.typed[BUCKET], BUCKET.kind.parse(value)
    if old < 1 or new < 1:
        raise ConfigError(
            f"bucket cannot change from {old} to {new} on a table with snapshots",
            hint="only a fixed number of buckets can be changed, to another number above 0",
        )


def _check_vectors(schema: TableSchema, *, enabled: bool) -> None:
    """Raise ConfigError when deletion vectors are switched on a table with rows, unless another option allows it."""
    options = schema.typed
    if options[DELETION_VECTORS_ENABLED] == enabled or options[DELETION_VECTORS_MODIFIABLE]:
        return
    # Without the vectors, rows that they mark come back. With them, a read leaves out files of level 0.
    happens = "rows are hidden until they are compacted" if enabled else "deleted rows may come back"
    raise ConfigError(
        f"deletion vectors cannot be switched {'on' if enabled else 'off'} on a table with snapshots: {happens}",
        option=DELETION_VECTORS_ENABLED.key,
        hint=f"compact the table in full before and after it, and set {DELETION_VECTORS_MODIFIABLE.key} = true first",
    )
