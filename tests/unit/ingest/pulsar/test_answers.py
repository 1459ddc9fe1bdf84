"""Answers that a lost connection leaves open: they are not taken for those about an empty partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pulsar
import pytest
from _pulsar import MessageId

from penstock.ingest.pulsar.answers import has_message, last_message_id

NONE, EMPTY, NEWEST = MessageId(-1, -1, -1, -1), MessageId(2, -1, -1, -1), MessageId(2, 3, 7, -1)


@dataclass
class Connection:
    """A consumer or reader with these answers, which is connected after each of them or not."""

    answers: list[Any]
    connected: list[bool] = field(default_factory=list)

    def get_last_message_id(self) -> Any:
        return self.answers.pop(0)

    def has_message_available(self) -> Any:
        return self.answers.pop(0)

    def is_connected(self) -> bool:
        return self.connected.pop(0)


def last(*answers: MessageId, connected: tuple[bool, ...] = ()) -> MessageId:
    asked: Any = Connection([*answers], [*connected])
    return last_message_id(asked)


def further(*answers: bool, connected: tuple[bool, ...] = ()) -> bool:
    asked: Any = Connection([*answers], [*connected])
    return has_message(asked)


def test_an_answer_of_the_broker_needs_no_second_question() -> None:
    assert last(NEWEST) == NEWEST
    assert last(EMPTY) == EMPTY
    assert further(True)


def test_an_answer_about_nothing_leads_to_a_second_question() -> None:
    assert last(NONE, NONE, connected=(True, True)) == NONE
    assert not further(False, False, connected=(True, True))
    # The client has connected again before anybody looked.
    assert last(NONE, NEWEST, connected=(True,)) == NEWEST
    assert further(False, True, connected=(True,))


@pytest.mark.parametrize("connected", [(False,), (True, False)])
def test_a_connection_that_was_lost_is_an_error_to_retry(connected: tuple[bool, ...]) -> None:
    with pytest.raises(pulsar.NotConnected):
        last(NONE, NONE, connected=connected)
    with pytest.raises(pulsar.NotConnected):
        further(False, False, connected=connected)
