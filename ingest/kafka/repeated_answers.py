"""Answers of brokers that are requested twice: without TLS nothing else shows that a network changed one of them.

Records have checksums, but answers about offsets have none. A wrong offset would stay in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import SourceError

if TYPE_CHECKING:
    from confluent_kafka.admin import ListOffsetsResultInfo

_T = TypeVar("_T")
_ATTEMPTS = 3


def has_tls(properties: Mapping[str, str]) -> bool:
    return properties.get("security.protocol", "").upper().endswith("SSL")


def confirmed(ask: Callable[[], _T], agree: Callable[[_T], bool]) -> _T:
    """Return the first answers that agree. Raise SourceError if they agree in none of a few attempts."""
    for _ in range(_ATTEMPTS):
        found = ask()
        if agree(found):
            return found
    raise SourceError(
        "the answers of Kafka brokers contradict each other",
        attempts=_ATTEMPTS,
        retryable=True,
        hint="the next attempt sends the requests again; if this happens again, check the network and proxies on the "
        "way to the brokers, and use TLS (properties.security.protocol=SSL), which detects changed bytes",
    )


def bounds_agree(answers: Sequence[Mapping[tuple[str, int], ListOffsetsResultInfo]]) -> bool:
    """Return whether the first offsets and the ends of partitions are the same twice; an end may have grown."""
    if len(answers) == 2:
        return True
    firsts, ends, firsts_again, ends_again = answers
    return all(
        firsts[place].offset == firsts_again[place].offset
        and ends[place].offset <= ends_again[place].offset
        and ends[place].leader_epoch == ends_again[place].leader_epoch
        for place in ends
    )
