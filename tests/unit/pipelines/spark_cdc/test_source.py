"""The columns of a source are asked for while somebody waits."""

from __future__ import annotations

import pytest

from penstock.ingest.patience import patience_seconds
from penstock.pipelines.spark_cdc import declared_columns
from penstock.pipelines.spark_cdc.source import LOAD_S, cdc_source


def test_load_reports_a_server_that_cannot_be_reached_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(declared_columns, "declared_schema", lambda _: waits.append(patience_seconds(120.0)))
    options = {"topic": "t", "value.format": "canal-json", "properties.bootstrap.servers": "127.0.0.1:1"}
    cdc_source("kafka")(options).schema()
    assert waits == [LOAD_S]
    assert patience_seconds(120.0) == 120.0
