"""The consumer of one reader: written when its position moves, and again before it would expire."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.table.meta.store import TableStore
from penstock.table.options.commits import CONSUMER_EXPIRATION_TIME
from penstock.table.read.stream_start import consumer_files

# At the latest: `consumer.expiration-time` may be set while a reader finds nothing new.
_LONGEST_MILLIS = 3_600_000
_PARTS_OF_EXPIRATION = 5


@dataclass(slots=True)
class ConsumerPlace:
    """The place that the reader of a table keeps under a consumer id; nothing is kept if the id is None.

    A consumer expires by the time of its file. Java writes the file at each checkpoint. Here it is written again when a
    fifth of `consumer.expiration-time` has passed, so that a reader that finds no new snapshots keeps its consumer and
    makes no request most of the time.
    """

    store: TableStore
    consumer: str | None
    _kept: int | None = None
    _written: int = 0

    def keep(self, next_id: int, mark: int = 0) -> None:
        """Let the snapshots from `next_id` on not expire. `mark` is the mark of the snapshot before it, if known."""
        if self.consumer is None:
            return
        if self._kept == next_id:
            if not self._is_due():
                return
            self.store.schema()  # read again, for an expiration time that was changed; refuses a dropped table
        consumer_files(self.store).put(self.consumer, next_id, mark)
        self._kept, self._written = next_id, self.store.ambient.now_millis()

    def renew(self, next_id: int) -> None:
        """Keep the place as it is. `next_id` counts if neither this process nor the consumer's file has one."""
        if self.consumer is None:
            return
        kept = self._kept
        if kept is None:
            kept = consumer_files(self.store).next_snapshot(self.consumer)
        self.keep(next_id if kept is None else kept)

    def _is_due(self) -> bool:
        expires = self.store.schema_last_read().typed[CONSUMER_EXPIRATION_TIME]
        pause = _LONGEST_MILLIS if expires is None else min(_LONGEST_MILLIS, expires // _PARTS_OF_EXPIRATION)
        # The clock may have been set back.
        return not 0 <= self.store.ambient.now_millis() - self._written < pause
