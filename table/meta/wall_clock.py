"""Java keeps some times as the writer's wall clock without a zone: creation times of files and tags."""

from __future__ import annotations

from datetime import datetime


def wall_millis(epoch_millis: int) -> int:
    """What the clock on this machine's wall showed at that instant, as milliseconds as if the wall stood in UTC."""
    offset = datetime.fromtimestamp(epoch_millis / 1000).astimezone().utcoffset()
    return epoch_millis + (0 if offset is None else round(offset.total_seconds() * 1000))


def epoch_millis(wall: int) -> int:
    """The instant at which this machine's wall clock showed `wall`."""
    guess = wall - (wall_millis(wall) - wall)
    return wall - (wall_millis(guess) - guess)
