"""Expiry of consumers that stopped reading, which would otherwise protect snapshots from expiry for ever."""

from __future__ import annotations

from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.store import TableStore
from penstock.table.options.commits import CONSUMER_EXPIRATION_TIME


def expire_consumers(store: TableStore, older_than: int | None = None) -> list[str]:
    """Delete the consumers that have not moved since `older_than`, or for `consumer.expiration-time`; return their ids.

    Nothing is deleted when neither is set, and no consumer whose modification time the store does not know.
    """
    if older_than is None:
        idle = store.schema().typed[CONSUMER_EXPIRATION_TIME]
        if idle is None:
            return []
        older_than = store.ambient.now_millis() - idle
    files = ConsumerFiles(store.storage, store.paths.root, store.paths.branch)
    over = [consumer.id for consumer in files.all() if 0 < consumer.modified < older_than]
    for consumer_id in over:
        files.delete(consumer_id)
    return over
