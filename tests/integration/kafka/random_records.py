"""Records of a random play, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.integration.kafka.random_messages import Change

Place = tuple[str, int]
TABLES = ("t0", "t1", "t2", "t3")
FUTURE = "future"  # the fate of a record that was not read yet
LOST, SKIPPED = "lost", "skipped"  # fates of records that were deleted before they were read, or precede the start
ABORTED = "aborted"


@dataclass(slots=True)
class Record:
    """A record of a topic. `change` is None for what is no change: malformed messages and tombstones.

    `fate` is the table that it was read for, None if its source table was left out; `also` are tables that may have it
    too, because a run that was killed read it with other settings.
    """

    place: Place
    what: str
    change: Change | None = None
    table: str | None = None  # the source table of a bad value
    fate: str | None = FUTURE
    also: set[str | None] = field(default_factory=set)
    may_be_lost: bool = False

    @property
    def source_table(self) -> str | None:
        return self.table if self.change is None else self.change.table

    offset: int = -1
    deleted: bool = False  # no longer in the topic
