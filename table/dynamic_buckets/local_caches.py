"""What this machine keeps of a table beside it: rows for lookups, and where keys lie."""

from __future__ import annotations

from penstock.table.compaction.bucket_compactor import lookup_folder, root_mark
from penstock.table.dynamic_buckets.key_index import forget_keys


def forget_table(root: str) -> None:
    """Of a table that is dropped or moved. Other machines evict theirs; a writer that is at them is not disturbed."""
    forget_keys(root)
    for path in lookup_folder().glob(f"*-{root_mark(root)}.*"):
        path.unlink(missing_ok=True)
