"""The system tables that can be read as streams: those that Paimon streams."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.system.tables import check_name

AUDIT_LOG, BINLOG = "audit_log", "binlog"
# The changes of the table, with their kinds as a column.
CHANGES = (AUDIT_LOG, BINLOG)
_READ_OPTIMIZED = {"ro", "read_optimized"}


class NotStreamed(ConfigError):
    """A system table that Paimon does not read as a stream either, or an option that a stream cannot have."""


def streamed_system(system: str, table: str, *, has_keys: bool) -> str | None:
    """Return the system table that the stream reads, None if it reads the table itself.

    NotStreamed if it cannot be read as a stream. Names are not case sensitive.
    """
    check_name(system, table)
    name = system.lower()
    if name in CHANGES:
        return name
    if name in _READ_OPTIMIZED and not has_keys:
        return None
    base = table.rpartition(".")[2]
    hint = f"{base}$audit_log and {base}$binlog can be; read {base}${name} in batch mode"
    if name in _READ_OPTIMIZED:
        hint = (
            f"its rows change only with full compactions: stream {base} itself, with changelog-producer ="
            f" full-compaction and scan.mode = compacted-full; or read {base}${name} in batch mode"
        )
    raise NotStreamed(f"the system table {base}${name} cannot be read as a stream", table=table, hint=hint)
