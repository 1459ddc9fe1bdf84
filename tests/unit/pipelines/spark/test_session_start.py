from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark.session_start import SessionStart


def test_a_session_is_opened_beside_other_work() -> None:
    may_open, session = threading.Event(), object()

    def opening() -> Any:
        may_open.wait()
        return session

    start = SessionStart(opening)  # returns, although the session waits
    may_open.set()
    assert start.session() is session
    assert start.session() is session


def test_an_error_of_opening_is_raised_where_the_session_is_needed() -> None:
    def opening() -> Any:
        raise ConfigError("no such master")

    start = SessionStart(opening)
    with pytest.raises(ConfigError, match="no such master"):
        start.session()
