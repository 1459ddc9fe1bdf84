"""Makes a failing story shorter, as long as it fails with the same cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Failure(Protocol):
    """A failure; another one with the same cause is the same defect."""

    @property
    def cause(self) -> str: ...


S = TypeVar("S")


def shortest(
    story: S, cause: str, shorter_ones: Callable[[S], Iterable[S]], failure_of: Callable[[S], Failure | None]
) -> S:
    """Return the story without the parts that its failure does not need.

    `shorter_ones` yields stories that each lack one part. A story that fails with another cause is not taken.
    """
    smaller = True
    while smaller:
        smaller = False
        for shorter in shorter_ones(story):
            failure = failure_of(shorter)
            if failure is not None and failure.cause == cause:
                story, smaller = shorter, True
                break
    return story
