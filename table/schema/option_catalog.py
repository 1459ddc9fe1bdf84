"""Every table option of Paimon 1.3 and later, declared once, together with what Penstock does about it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import ConfigError, did_you_mean
from penstock.table.schema.option_families import (
    buckets,
    changelog,
    commits,
    compaction,
    definition,
    engines,
    files,
    indexes,
    lookup,
    merging,
    outside,
    partitions,
    reading,
    writing,
)
from penstock.table.schema.option_types import TableOption

FAMILIES: Mapping[str, tuple[TableOption, ...]] = {
    "The table": definition.OPTIONS,
    "Buckets": buckets.OPTIONS,
    "Merging rows of one key": merging.OPTIONS,
    "Changelogs and deletion vectors": changelog.OPTIONS,
    "Compaction": compaction.OPTIONS,
    "Data files and statistics": files.OPTIONS,
    "Commits, manifests, snapshots": commits.OPTIONS,
    "Partitions and tags": partitions.OPTIONS,
    "Reads": reading.OPTIONS,
    "Writers and row ids": writing.OPTIONS,
    "Indexes and columns of later releases": indexes.OPTIONS,
    "Look-ups": lookup.OPTIONS,
    "Flink and Spark": engines.OPTIONS,
    "Iceberg and log systems": outside.OPTIONS,
}
OPTIONS: tuple[TableOption, ...] = tuple(option for family in FAMILIES.values() for option in family)
_EXACT: Mapping[str, TableOption] = {
    key: option for option in OPTIONS if option.pattern is None for key in (option.key, *option.old_keys)
}
_LOWER: Mapping[str, TableOption] = {key.lower(): option for key, option in _EXACT.items()}  # for Spark's lower case
_PATTERNS: tuple[tuple[re.Pattern[str], TableOption], ...] = tuple(
    (option.pattern, option) for option in OPTIONS if option.pattern is not None
)
KEYS: tuple[str, ...] = tuple(sorted(_EXACT))
# Options of releases before 1.3 that guides still mention.
_GONE = {
    "connector": "it tells Flink whose table this is; here every table is Paimon's",
    "metadata.iceberg-compatible": "no Iceberg metadata is written",
    "record-level.time-field-type": "the type of the column says it",
    "sequence.auto-padding": "name columns in sequence.field that tell all rows apart",
    "streaming-compact": "penstock compact compacts a table beside its writers",
    "write-manifest-cache": "Paimon has no such cache any more",
    "write-mode": "a table without a primary key is an append table",
}
# Keys that older releases used for an option, the oldest first. They are read in this order if the current key is not
# set.
OLD_KEYS: Mapping[str, tuple[str, ...]] = {option.key: option.old_keys for option in OPTIONS if option.old_keys}


def find(key: str) -> TableOption | None:
    """Return the option with this key, or None if Paimon has no such option."""
    exact = _EXACT.get(key) or _LOWER.get(key)
    if exact is not None:
        return exact
    return next((option for pattern, option in _PATTERNS if pattern.fullmatch(key)), None)


def option_named(key: str) -> TableOption:
    """Return the option with this key.

    Raise ConfigError for an unknown key, with its replacement or the most similar key as the hint.
    """
    found = find(key)
    if found is None:
        raise ConfigError(f"{key!r} is no table option", hint=_hint(key))
    return found


def _hint(key: str) -> str:
    if key in _GONE:
        return f"leave it out: {_GONE[key]}"
    return did_you_mean(key, KEYS, "options of your own begin with penstock.")
