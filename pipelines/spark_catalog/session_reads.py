"""Options of reads that a session sets for the tables of a catalog, as in Paimon's Spark: `spark.paimon.KEY`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from penstock.table.sql.queries.session_reads import ANY, PREFIX, check_read_option, reads_of, table_and_key

log = logging.getLogger(__name__)

_REPORTED: set[str] = set()


def session_reads(
    session: Mapping[str, str], catalog: str, database: str, table: str, exists: Callable[[str], bool]
) -> dict[str, str]:
    """Return the options for reads of a table. ConfigError for one that is not an option of reads.

    An option for a table that does not exist is logged once: Spark's SET accepts every name.
    """
    options = {written.removeprefix(PREFIX): text for written, text in session.items()}
    for name, text in options.items():
        check_read_option(
            name,
            text,
            f"spark.conf.unset({PREFIX + name!r}); {_instead(name)}",
        )
        names, _ = table_and_key(name)
        if names is not None and name not in _REPORTED and names[0] in {catalog, ANY} and ANY not in names[1:]:
            _REPORTED.add(name)
            if not exists(".".join(names[1:])):
                log.warning("event=option_of_missing_table option=%s table=%s", PREFIX + name, ".".join(names[1:]))
    return reads_of(options, (catalog, database, table))


def _instead(name: str) -> str:
    """Return what does the same as an option of writes."""
    if table_and_key(name)[1].startswith("write.merge-schema"):
        return "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT ..., or MERGE WITH SCHEMA EVOLUTION INTO t"
    return (
        "set options of writes with ALTER TABLE t SET TBLPROPERTIES, or for one statement with INSERT INTO t WITH (...)"
    )
