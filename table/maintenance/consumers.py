"""Consumers that no one moves any more: they would hold snapshots for ever (table-format 13.7)."""

from __future__ import annotations

from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options


def expire_consumers(store: TableStore, older_than: int | None = None) -> list[str]:
    """Forget the consumers that have not moved since `older_than`, or for `consumer.expiration-time`; gives their ids.

    Nothing happens without either, and to a consumer of which the store does not know when it moved.
    """
    if older_than is None:
        idle = Options(store.schema().options).duration("consumer.expiration-time", None)
        if idle is None:
            return []
        older_than = store.ambient.now_millis() - idle
    files = ConsumerFiles(store.storage, store.paths.root, store.paths.branch)
    over = [consumer.id for consumer in files.all() if 0 < consumer.modified < older_than]
    for consumer_id in over:
        files.delete(consumer_id)
    return over
