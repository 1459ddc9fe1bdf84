"""Conversion between instants and local wall clock times.

Java stores some times (creation times of files and tags) as the writer's local wall clock without a zone.
"""

from __future__ import annotations

from datetime import datetime


def wall_millis(epoch_millis: int) -> int:
    """Return the local time of this machine at an instant, in milliseconds as if the local time were UTC."""
    offset = datetime.fromtimestamp(epoch_millis / 1000).astimezone().utcoffset()
    return epoch_millis + (0 if offset is None else round(offset.total_seconds() * 1000))


def epoch_millis(wall: int) -> int:
    """Return the instant at which this machine's local time was `wall`."""
    guess = wall - (wall_millis(wall) - wall)
    return wall - (wall_millis(guess) - guess)
