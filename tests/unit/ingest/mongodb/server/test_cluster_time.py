"""Cluster times: order, texts, and the time in a resume token."""

from __future__ import annotations

from bson.timestamp import Timestamp

from penstock.ingest.mongodb.server.cluster_time import (
    time_from,
    time_json,
    time_of,
    time_of_token,
    time_text,
    timestamp_of,
)


def test_times_are_ordered_by_second_and_number() -> None:
    times = [Timestamp(5, 9), Timestamp(6, 0), Timestamp(6, 1)]
    found = [time_of(time) for time in times]
    assert found == sorted(found)
    assert [timestamp_of(time) for time in found] == times
    assert [time_from(time_json(time)) for time in found] == found
    assert time_text(found[2]) == "1970-01-01T00:00:06Z Timestamp(6, 1)"


def test_time_of_a_token_of_the_server() -> None:
    # From the manual's example of a resume token.
    token = "82635019A0000000012B042C0100296E5A1004AC"
    assert time_of_token(token) == 0x635019A0 << 32 | 1


def test_tokens_of_another_form_have_no_time() -> None:
    assert time_of_token("36000000107300060000001174000a") is None
    assert time_of_token("82zz19A000000001") is None
    assert time_of_token("") is None
