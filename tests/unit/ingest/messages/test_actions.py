"""Options of brokers that nothing reads: certain mistakes are refused, possible ones are named."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.ingest.kafka.actions import conf_section

NEEDED = {"value.format": "json", "topic": "a", "properties.bootstrap.servers": "h:1"}


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("value_format", "value.format"),
        ("scan.startup-mode", "scan.startup.mode"),
        ("scan.startupMode", "scan.startup.mode"),
        ("Properties.bootstrap.servers", "properties.bootstrap.servers"),
    ],
)
def test_options_that_are_certainly_misspelt_are_refused_with_their_name(key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka_conf has no option {key}") as caught:
        conf_section(NEEDED | {key: "x"})
    assert f"did you mean {meant}?" in str(caught.value)


def test_other_options_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        conf_section(NEEDED | {"topics": "b", "sink.parallelism": "2", "key.format": "json"})
    assert [record.getMessage() for record in caplog.records] == [
        "event=kafka_conf_without_effect key=topics note=did you mean topic?",
        "event=kafka_conf_without_effect key=sink.parallelism note=the pipeline does not read this option",
    ]
