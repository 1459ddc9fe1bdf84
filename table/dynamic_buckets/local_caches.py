"""The caches of a table on this machine: lookup files, and key indexes."""

from __future__ import annotations

from penstock.table.compaction.lookup_store import drop_table_lookups
from penstock.table.dynamic_buckets.index_folder import forget_keys


def forget_table(root: str) -> None:
    """Delete this machine's caches of a table that was dropped or moved.

    Other machines evict theirs in time. A writer that is using them is not disturbed.
    """
    forget_keys(root)
    drop_table_lookups(root)
