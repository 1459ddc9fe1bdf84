"""Options of reads that a session sets for the tables of a catalog, as in Paimon's Spark: `spark.paimon.KEY`."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.table.sql.queries.session_reads import PREFIX, check_read_option, reads_of


def session_reads(session: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Return the options for reads of a table. ConfigError for one that is not an option of reads."""
    options = {written.removeprefix(PREFIX): text for written, text in session.items()}
    for name, text in options.items():
        check_read_option(
            name,
            text,
            f"spark.conf.unset({PREFIX + name!r}); set options of writes with ALTER TABLE t SET TBLPROPERTIES, or "
            "for one statement with INSERT INTO t WITH (...)",
        )
    return reads_of(options, (catalog, database, table))
