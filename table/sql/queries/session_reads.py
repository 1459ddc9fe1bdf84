"""Options of reads that a session sets: `spark.paimon.KEY`, and `spark.paimon.CATALOG.DATABASE.TABLE.KEY`.

Flink's names are `KEY`, and `paimon.CATALOG.DATABASE.TABLE.KEY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import ConfigError
from penstock.table.options.checks import check_given

PREFIX = "spark.paimon."
READS = ("scan.", "incremental-", "consumer", "streaming-read-", "read.", "source.split.")
_OF_FLINK = "paimon."
ANY = "*"
_PARTS = 3  # catalog, database and table


def read_name(key: str) -> str | None:
    """Return the name of an option of reads without the prefix of Spark or Flink; None for another option."""
    if key.startswith(READS):
        return key
    return next((key.removeprefix(prefix) for prefix in (PREFIX, _OF_FLINK) if key.startswith(prefix)), None)


def table_and_key(name: str) -> tuple[Sequence[str] | None, str]:
    """Return the names of the catalog, the database and the table in front of the key of an option, and the key."""
    parts = name.split(".", _PARTS)
    if len(parts) > _PARTS and not name.startswith(READS):
        return parts[:_PARTS], parts[_PARTS]
    return None, name


def check_read_option(name: str, text: str, hint: str) -> None:
    """Raise ConfigError, with the hint, for a name without its prefix that is not of an option of reads."""
    _, key = table_and_key(name)
    if not key.startswith(READS):
        raise ConfigError(
            f"{PREFIX + name!r} is not an option of reads",
            options=", ".join(f"{PREFIX}{option}..." for option in READS),
            hint=hint,
        )
    check_given({key: text})


def reads_of(options: Mapping[str, str], table: Sequence[str]) -> dict[str, str]:
    """Return the options for reads of a table, which is named by its catalog, its database and its own name.

    `CATALOG.DATABASE.TABLE.KEY` is for one table, or with `*` in place of names for several, and wins over `KEY`.
    """
    general: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, text in options.items():
        names, key = table_and_key(name)
        if names is None:
            general[key] = text
        elif all(name in {ANY, meant} for name, meant in zip(names, table, strict=True)):
            own[key] = text
    return general | own


def is_any(name: str) -> bool:
    """Return whether a name stands for every catalog, database or table."""
    return name == ANY
