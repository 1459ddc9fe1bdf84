"""Parts of a batch that cannot be read any more, and need not be read, as all tables are read again after the batch.

A batch is planned once, and is then part of the checkpoint. If its part of the log is gone, or lacks what the tables
need, it would fail at every start, before the request to read the tables again is carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import SourceError, in_one_line
from penstock.ingest.database.findings import DamagedData
from penstock.ingest.decoded_source import DecodedChunk

log = logging.getLogger(__name__)
SKIPS = "skips"  # in the start of a range: all tables are read again after its batch


def unless_skipped(
    chunks: Iterator[DecodedChunk], start: Mapping[str, Any], also: tuple[type[SourceError], ...] = ()
) -> Iterator[DecodedChunk]:
    """Yield the changes of a part of a batch. An error ends the part early if the part may be left out.

    It may be left out if the error is one of `also`, or if the start has SKIPS and the error is not retryable, or is
    one of data that may be damaged where they are stored. Other errors are raised.
    """
    try:
        yield from chunks
    except SourceError as error:
        may_last = not error.retryable or isinstance(error, DamagedData)
        if not isinstance(error, also) and not (SKIPS in start and may_last):
            raise
        log.warning(
            "event=part_skipped reason=%s note=the next batch empties the tables and reads them", in_one_line(error)
        )
