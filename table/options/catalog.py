"""Every table option of Paimon 1.3 and later, declared once, together with what Penstock does about it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import ConfigError, did_you_mean
from penstock.table.options import (
    buckets,
    changelogs,
    commits,
    compaction,
    definition,
    files,
    flink,
    iceberg,
    indexes,
    lookups,
    merge_engines,
    other_systems,
    partitions,
    scans,
    spark,
    writers,
)
from penstock.table.options.declaration import TableOption

# The names are the headings of docs/table-options.md, in this order.
FAMILIES: Mapping[str, tuple[TableOption[object], ...]] = {
    "The table": definition.OPTIONS,
    "Buckets": buckets.OPTIONS,
    "Merging rows of one key": merge_engines.OPTIONS,
    "Changelogs and deletion vectors": changelogs.OPTIONS,
    "Compaction": compaction.OPTIONS,
    "Data files and statistics": files.OPTIONS,
    "Commits, manifests, snapshots": commits.OPTIONS,
    "Partitions and tags": partitions.OPTIONS,
    "Reads": scans.OPTIONS,
    "Writers and row ids": writers.OPTIONS,
    "Indexes and columns of later releases": indexes.OPTIONS,
    "Look-ups": lookups.OPTIONS,
    "Flink and Spark": (*flink.OPTIONS, *spark.OPTIONS),
    "Iceberg metadata": iceberg.OPTIONS,
    "Log systems": other_systems.OPTIONS,
}
OPTIONS: tuple[TableOption[object], ...] = tuple(option for family in FAMILIES.values() for option in family)
_EXACT: Mapping[str, TableOption[object]] = {
    key: option for option in OPTIONS if option.pattern is None for key in (option.key, *option.old_keys)
}
_LOWER: Mapping[str, TableOption[object]] = {
    key.lower(): option for key, option in _EXACT.items()
}  # for Spark's lower case
_PATTERNS: tuple[tuple[re.Pattern[str], TableOption[object]], ...] = tuple(
    (option.pattern, option) for option in OPTIONS if option.pattern is not None
)
KEYS: tuple[str, ...] = tuple(sorted(_EXACT))
# Options of releases before 1.3 that guides still mention.
_GONE = {
    "connector": "it names the Flink connector; every table here is a Paimon table",
    "metadata.iceberg-compatible": "set metadata.iceberg.storage",
    "record-level.time-field-type": "the type of the column decides",
    "sequence.auto-padding": "name columns in sequence.field that are different for all rows of a key",
    "streaming-compact": "run penstock compact while other jobs write",
    "write-manifest-cache": "Paimon no longer has this cache",
    "write-mode": "a table without a primary key is an append table",
}


def find(key: str) -> TableOption[object] | None:
    """Return the option with this key, or None if Paimon has no such option."""
    exact = _EXACT.get(key) or _LOWER.get(key)
    if exact is not None:
        return exact
    # Patterns come last, because parquet.<name> matches parquet.compression too.
    return next((option for pattern, option in _PATTERNS if pattern.fullmatch(key)), None)


def option_named(key: str) -> TableOption[object]:
    """Return the option with this key.

    Raise ConfigError for an unknown key, with its replacement or the most similar key as the hint.
    """
    found = find(key)
    if found is None:
        raise ConfigError(f"{key!r} is not a table option", hint=_hint(key))
    return found


def _hint(key: str) -> str:
    if key in _GONE:
        return f"remove it: {_GONE[key]}"
    return did_you_mean(key, KEYS, "options that you define begin with penstock.")
