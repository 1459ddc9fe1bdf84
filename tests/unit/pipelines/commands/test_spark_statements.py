"""The session of `penstock sql --engine spark`, without a JVM."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.commands import spark_statements
from penstock.pipelines.spark import session as sessions
from penstock.pipelines.spark_catalog import registration


class Session:
    """A session whose JVM answers the call to stop with the rest of an earlier answer."""

    def sql(self, _text: str) -> None: ...

    def stop(self) -> None:
        raise KeyError("p")


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: Any, **__: Any) -> Session:
        return Session()

    monkeypatch.setattr(sessions, "active_session", lambda: None)
    monkeypatch.setattr(sessions, "open_session", opened)
    monkeypatch.setattr(registration, "register", lambda *_: None)


def test_an_interrupted_statement_ends_with_the_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), spark_statements.spark_session("warehouse", {}, None, None, {}):
        raise KeyboardInterrupt


def test_a_session_with_the_catalog_of_another_warehouse_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Session()
    running.conf = {"spark.sql.catalog.lake.warehouse": "/other"}  # type: ignore[attr-defined]
    monkeypatch.setattr(sessions, "active_session", lambda: running)
    opened = spark_statements.spark_session("/warehouse", {}, None, None, {})
    with pytest.raises(ConfigError, match="a catalog lake of another warehouse"), opened:
        pass


def test_an_unexpected_error_of_the_end_is_shown() -> None:
    with pytest.raises(KeyError), spark_statements.spark_session("warehouse", {}, None, None, {}):
        pass
