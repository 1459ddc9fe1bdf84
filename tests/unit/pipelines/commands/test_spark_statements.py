"""The session of `penstock sql --engine spark`, without a JVM."""

from __future__ import annotations

from types import SimpleNamespace
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


class Running(Session):
    """A session that goes on after the command; a statement that was interrupted leaves its answer unread."""

    def __init__(self, warehouse: str) -> None:
        self.conf = Settings({"spark.sql.catalog.lake.warehouse": warehouse, "tasks": "8"})
        self.catalog = SimpleNamespace(currentCatalog=lambda: "mine", currentDatabase=lambda: "own")
        self.statements: list[str] = []
        self.is_interrupted = False

    def sql(self, text: str) -> None:
        if self.is_interrupted:
            raise KeyError("p")
        self.statements.append(text)

    def interrupt(self) -> None:
        self.is_interrupted = True
        raise KeyboardInterrupt


class Settings(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    made = Running("s3://lake/")
    monkeypatch.setattr(sessions, "active_session", lambda: made)
    return made


def test_a_running_session_gets_its_database_and_settings_back(running: Running) -> None:
    meanwhile = {"tasks": "3", "other": "x"}
    with spark_statements.spark_session("s3://lake", {}, "shop", None, {}, meanwhile):
        assert running.conf.items() >= meanwhile.items()
    assert running.conf == {"spark.sql.catalog.lake.warehouse": "s3://lake/", "tasks": "8"}
    assert running.statements == ["USE lake.`shop`", "USE `mine`.`own`"]


def test_an_interruption_in_a_running_session_ends_with_the_interruption(running: Running) -> None:
    opened = spark_statements.spark_session("s3://lake", {}, None, None, {})
    with pytest.raises(KeyboardInterrupt), opened:
        running.interrupt()


def test_an_unexpected_error_of_the_end_is_shown() -> None:
    with pytest.raises(KeyError), spark_statements.spark_session("warehouse", {}, None, None, {}):
        pass
