from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.ingest.pulsar.actions import ACTIONS, conf_section
from penstock.ingest.pulsar.config import PulsarConfig

NEEDED = {"value.format": "json", "topic": "a;b", "pulsar.client.serviceUrl": "pulsar://h:1"}


def translated(**more: str):  # type: ignore[no-untyped-def]
    conf = NEEDED | {name.replace("__", "."): value for name, value in more.items()}
    return ACTIONS.translate({"pulsar-conf": [f"{key}={value}" for key, value in conf.items()]})


def test_flags_become_a_section(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "pulsar.consumer.subscriptionName": "s",
        "schema.registry.url": "http://r",
        "pulsar.startCursor.fromMessageId": "LATEST",
        "pulsar.source.partitionDiscoveryIntervalMs": "1",
        "pulsar.sink.topic": "x",
    }
    with caplog.at_level(logging.WARNING):
        assert conf_section(NEEDED | given) == {
            "type": "pulsar",
            "topic": ("a", "b"),
            "topic-pattern": None,
            "value.format": "json",
            "schema-registry": {"url": "http://r"},
            "properties": {"pulsar.client.serviceUrl": "pulsar://h:1", "pulsar.consumer.subscriptionName": "s"},
            "startup": {"mode": "latest"},
        }
    assert [record.getMessage() for record in caplog.records] == [
        "event=pulsar_conf_without_effect key=pulsar.sink.topic note=the pipeline does not read this option"
    ]


def test_the_start_cursor_is_an_id_or_a_time() -> None:
    by_id = translated(pulsar__startCursor__fromMessageId="1,2,3", pulsar__startCursor__fromMessageIdInclusive="false")
    assert by_id.section["startup"] == {"mode": "message-id", "message-id": "1,2,3", "inclusive": "false"}
    by_time = translated(pulsar__startCursor__fromPublishTime="17")
    assert by_time.section["startup"] == {"mode": "publish-time", "publish-time": "17"}
    assert translated().section["startup"] == {"mode": "earliest"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"pulsar__startCursor__fromNowhere": "1"}, "no option pulsar.startCursor.fromNowhere"),
        (
            {"pulsar__startCursor__fromMessageId": "1,2,3", "pulsar__startCursor__fromPublishTime": "1"},
            "set either",
        ),
        ({"pulsar__stopCursor__atEventTime": "1"}, "stopCursor.atEventTime"),
        ({"pulsar__stopCursor__atMessageId": "1,2,3"}, "stopCursor.atMessageId"),
        (
            {"pulsar__stopCursor__atMessageId": "LATEST", "pulsar__stopCursor__atEventTime": "1"},
            "You can set at most one of the stop cursor options.",
        ),
        ({"pulsar__source__unbounded": "maybe"}, "unbounded"),
    ],
)
def test_options_that_are_not_supported_are_refused_by_name(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translated(**more)


@pytest.mark.parametrize(
    ("more", "pipeline"),
    [
        ({}, {}),
        ({"pulsar__stopCursor__atMessageId": "NEVER"}, {}),
        ({"pulsar__stopCursor__atMessageId": "LATEST"}, {"until": "caught-up"}),
        ({"pulsar__source__unbounded": "false"}, {"until": "caught-up"}),
    ],
)
def test_a_bounded_source_means_until_caught_up(more: dict[str, str], pipeline: dict[str, str]) -> None:
    assert translated(**more).pipeline == pipeline


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("Topic", "topic"),
        ("value-format", "value.format"),
        ("topic.pattern", "topic-pattern"),
        ("pulsar.client.service-url", "pulsar.client.serviceUrl"),
        ("pulsar.consumer.subscription.name", "pulsar.consumer.subscriptionName"),
        ("PULSAR.client.serviceUrl", "pulsar.client.serviceUrl"),
        ("pulsar.startcursor.frommessageid", "pulsar.startCursor.fromMessageId"),
        ("pulsar.stop-cursor.atMessageId", "pulsar.stopCursor.atMessageId"),
    ],
)
def test_options_that_are_certainly_misspelt_are_refused_with_their_name(key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"no option {key}") as caught:
        conf_section(NEEDED | {key: "x"})
    assert f"did you mean {meant}?" in str(caught.value)


def test_options_that_are_nearly_right_are_named(caplog: pytest.LogCaptureFixture) -> None:
    conf_section(NEEDED | {"topics": "c", "pulsar.client.serviceurl": "pulsar://h:1"})
    assert "key=topics note=did you mean topic?" in caplog.text


def test_the_name_that_was_given_instead_of_a_needed_one_is_in_the_error() -> None:
    properties = {"pulsar.client.serviceUrl": "pulsar://h:1", "pulsar.consumer.subscriptionNames": "s"}
    with pytest.raises(ValueError, match=r"subscriptionName\] must be specified. There is no option pulsar.c"):
        PulsarConfig.model_validate(
            {"type": "pulsar", "topic": ["t"], "value.format": "json", "properties": properties}
        )


def test_the_format_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"pulsar_conf \[value.format\] must be specified"):
        conf_section({"topic": "a"})
