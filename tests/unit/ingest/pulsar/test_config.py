from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.ingest.pulsar.config import PulsarConfig, PulsarStartup

PROPERTIES = {"pulsar.client.serviceUrl": "pulsar://h:1", "pulsar.consumer.subscriptionName": "s"}
SECTION: dict[str, Any] = {"type": "pulsar", "topic": "a;b", "value.format": "json", "properties": PROPERTIES}


def test_topics_may_be_one_text() -> None:
    assert PulsarConfig.model_validate(SECTION).topic == ("a", "b")


def test_names_in_lower_case_are_those_of_the_client() -> None:
    lower = {name.lower(): value for name, value in PROPERTIES.items()} | {"pulsar.client.other": "x"}
    config = PulsarConfig.model_validate(SECTION | {"properties": lower})
    assert config.properties == PROPERTIES | {"pulsar.client.other": "x"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topic-pattern": "a.*"}, "must and can only set one of the following options: topic,topic-pattern."),
        ({"topic": ""}, "must and can only set one of the following options: topic,topic-pattern."),
        ({"topic": "", "topic-pattern": "("}, "not a regular expression"),
        ({"topic": "non-persistent://public/default/a"}, "keeps no messages"),
        ({"properties": {"pulsar.client.serviceUrl": "x"}}, "subscriptionName"),
        ({"properties": {"pulsar.consumer.subscriptionName": "x"}}, "serviceUrl"),
    ],
)
def test_a_section_that_cannot_work_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PulsarConfig.model_validate(SECTION | changes)


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "message-id"},
        {"mode": "publish-time"},
        {"mode": "message-id", "message-id": "1,2"},
        {"mode": "message-id", "message-id": "1:2:3"},
        {"mode": "first"},
    ],
)
def test_a_start_that_says_too_little_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PulsarStartup.model_validate(given)


def test_an_id_has_three_numbers() -> None:
    startup = PulsarStartup.model_validate({"mode": "message-id", "message-id": "12, 5, -1"})
    assert startup.id_parts == (12, 5, -1)
    assert PulsarStartup().id_parts is None
