"""The connector of Pulsar: what it says before a run."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.ingest.connector_requests import Preparation, SourceRequest
from penstock.ingest.pulsar.cluster import PulsarCluster
from penstock.ingest.pulsar.config import PulsarConfig
from penstock.ingest.pulsar.connector import CONNECTOR
from penstock.storage.state_folder import StateFolder

ADMIN = {"pulsar.admin.adminUrl": "http://127.0.0.1:1"}
REQUEST = SourceRequest(state=StateFolder("/state"), snapshot_requests=StateFolder("/requests"))


def config(**more: str) -> PulsarConfig:
    properties = {"pulsar.client.serviceUrl": "pulsar://127.0.0.1:1", "pulsar.consumer.subscriptionName": "s", **more}
    given: dict[str, Any] = {"type": "pulsar", "properties": properties, "topic": ["t"], "value.format": "json"}
    return PulsarConfig.model_validate(given)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_start_says_once_that_lost_messages_are_not_noticed_without_the_admin_interface(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_new: bool
) -> None:
    monkeypatch.setattr("penstock.ingest.pulsar.client.check_reachable", lambda _: None)
    monkeypatch.setattr(PulsarCluster, "partitions", lambda _: [])
    CONNECTOR.prepare(config(), REQUEST, Preparation(is_new))
    assert caplog.text.count("event=losses_not_visible") == 1
    assert "pulsar.admin.adminUrl" in caplog.text
    caplog.clear()
    CONNECTOR.prepare(config(**ADMIN), REQUEST, Preparation(is_new))
    assert caplog.text == ""


def test_check_says_that_lost_messages_are_not_noticed_without_the_admin_interface(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PulsarCluster, "partitions", lambda _: [])
    lost = [
        finding for finding in CONNECTOR.check(config(), REQUEST).findings if "has lost messages" in finding.message
    ]
    assert [(finding.level, "adminUrl" in finding.fix) for finding in lost] == [("warning", True)]
    assert CONNECTOR.check(config(**ADMIN), REQUEST).findings == ()
