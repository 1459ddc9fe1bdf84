"""Options of reads that a session sets for the tables of a catalog, as in Paimon's Spark: `spark.paimon.KEY`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import ConfigError
from penstock.table.options.checks import check_given
from penstock.table.sql.session_options import READS

_PREFIX = "spark.paimon."
_PARTS = 3  # catalog, database and table


def session_reads(session: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Return the options for reads of a table. ConfigError for one that is not an option of reads.

    `spark.paimon.CATALOG.DATABASE.TABLE.KEY` is for one table, or with `*` in place of names for several, and wins over
    `spark.paimon.KEY`.
    """
    general: dict[str, str] = {}
    own: dict[str, str] = {}
    for written, text in session.items():
        names, key = _of_table(written.removeprefix(_PREFIX))
        if not key.startswith(READS):
            raise ConfigError(
                f"{written!r} is not an option of reads",
                options=", ".join(f"{_PREFIX}{option}..." for option in READS),
                hint=f"spark.conf.unset({written!r}); set options of writes with ALTER TABLE t SET TBLPROPERTIES, or "
                "for one statement with INSERT INTO t WITH (...)",
            )
        check_given({key: text})
        if names is None:
            general[key] = text
        elif all(name in {"*", meant} for name, meant in zip(names, (catalog, database, table), strict=True)):
            own[key] = text
    return general | own


def _of_table(name: str) -> tuple[Sequence[str] | None, str]:
    """Return the names of the catalog, the database and the table in front of a key, and the key."""
    parts = name.split(".", _PARTS)
    if len(parts) > _PARTS and not name.startswith(READS):
        return parts[:_PARTS], parts[_PARTS]
    return None, name
