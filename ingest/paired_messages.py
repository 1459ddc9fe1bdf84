"""Messages that belong to the next one of their partition, as the old row of an update in a message of its own.

The end of a batch, of a range or of a chunk may be between the two. Then the first is decoded with the second: a chunk
leaves it to the next one, and so does a range if its source can show the next range the message before it. A batch
never waits for the second message, which may not come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

from penstock.ingest.fetched_messages import FetchedMessages, joined
from penstock.ingest.source import Range

log = logging.getLogger(__name__)


@runtime_checkable
class LookingBack(Protocol):
    """A source that can show the last message before a range."""

    def last_before(self, range_: Range) -> FetchedMessages | None:
        """Return the message directly before a range; None if the source does not have it."""
        ...

    def is_shown_next(self, range_: Range, last: FetchedMessages) -> bool:
        """Return whether the reader of the following range will find this last message of a range before it."""
        ...


def whole_pairs(
    fetches: Iterable[FetchedMessages],
    leads: Callable[[bytes | None], bool],
    last_before: Callable[[], FetchedMessages | None],
    is_shown_next: Callable[[FetchedMessages], bool],
    follows: Callable[[bytes | None], bool] = lambda _: False,
) -> Iterator[FetchedMessages]:
    """Yield the messages of a range, each that leads together with the next one.

    The message before the range, which is looked up with the first one, is added if it leads. The last one is left out
    if it does, and is shown to the next range. Of several that lead one after the other, the last belongs to the next
    one. `follows` returns whether a message may be the second of a pair: a first message that may be is reported if
    the message before it is gone.
    """
    before, is_first = last_before(), True
    held = before if before is not None and leads(before.messages.values[-1]) else None
    for fetched in fetches:
        if is_first and before is None and follows(fetched.messages.values[0]):
            _report_lone(fetched)
        is_first = False
        chunk = fetched if held is None else joined([held, fetched])
        last, held = len(chunk.messages) - 1, None
        if leads(chunk.messages.values[last]):
            chunk, held = chunk.part(0, last), chunk.part(last, last + 1)
        if last or held is None:
            yield chunk
    if held is not None and not is_shown_next(held):
        yield held


def _report_lone(fetched: FetchedMessages) -> None:
    offset = int(fetched.messages.offsets[0])
    if offset:  # otherwise nothing was ever before it
        log.warning(
            "event=old_row_unknown topic=%s partition=%d offset=%d note=the message before it is gone, which may have"
            " had the old row of this update: if its key changed, the row with the old key stays",
            fetched.topic,
            fetched.partition,
            offset,
        )
