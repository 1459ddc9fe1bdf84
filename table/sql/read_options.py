"""`SET spark.paimon.KEY = VALUE`: options of all reads of a session, as in Paimon's Spark SQL."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.options.checks import check_given
from penstock.table.sql.statements import SessionOption

READ_OPTION = "spark.paimon."
_READS = ("scan.", "incremental-", "consumer", "streaming-read-", "read.", "source.split.")


def set_read_option(options: dict[str, str], option: SessionOption) -> None:
    """Set an option of reads, or take it back. ConfigError if it is not one."""
    key = (option.key or "").removeprefix(READ_OPTION)
    if option.value is None:
        options.pop(key, None)
        return
    if not key.startswith(_READS):
        raise ConfigError(
            f"{option.key!r} is not an option of reads",
            options=", ".join(f"{READ_OPTION}{one}..." for one in _READS),
            hint="write others for one statement: t /*+ OPTIONS('key' = 'value') */; or ALTER TABLE t SET",
        )
    check_given({key: option.value})
    options[key] = option.value
