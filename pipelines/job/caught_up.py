"""A check without Spark that a pipeline has nothing to read.

A bounded query of Spark asks the stream of the source for its end, then for the end of the batch that follows the
newest one of the checkpoint, and ends when that is where the newest batch ended. The same questions to the same stream
have the same answers in this process. Whenever something else than these answers would decide, Spark has to find out.
"""

from __future__ import annotations

import logging
from typing import Protocol

from penstock.errors import PenstockError
from penstock.ingest.source import Limit, Offsets, patience
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder

log = logging.getLogger(__name__)


class AskedStream(Protocol):
    """The object that Spark's planner queries: the reader of batches, or its source alone."""

    def available(self) -> Offsets: ...

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets: ...

    def close(self) -> None: ...


def has_caught_up(stream: AskedStream, folder: CheckpointFolder, limit: Limit) -> bool:
    """Return whether the newest batch of the checkpoint is finished and nothing follows it; False if not certain.

    The stream is closed: what it noted while planning is not valid for a run.
    """
    last = folder.finished_offsets()
    if last is None or folder.has_requests:
        return False
    try:
        with patience(0.0):
            until = stream.available()
            end = stream.latest_offsets(last, limit, until)
    except (PenstockError, OSError) as error:
        # The run asks again, waits for a server that is away, and reports what is wrong.
        log.info("event=not_known_if_caught_up reason=%s", str(error).partition("\n")[0])
        return False
    finally:
        stream.close()
    return end == last
