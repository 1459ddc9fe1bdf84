"""The session of a run that is stopped while Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from penstock.pipelines.api.early_stop import asked_to_stop
from penstock.pipelines.api.run_session import RunSession
from penstock.pipelines.errors import StoppedEarly
from penstock.pipelines.spark.session_start import SessionStart
from tests.shop import Shop


def killed() -> NoReturn:
    raise ConnectionError("Connection refused")


def test_a_stop_while_spark_starts_ends_the_run_in_order(tmp_path: Path) -> None:
    start, shop = SessionStart(killed), Shop(tmp_path)
    endless, bounded = shop.spec(pipeline={"until": "forever"}), shop.spec()
    with asked_to_stop(lambda: True, endless):
        RunSession(endless, asked=lambda: True).wait_for(start)
    with pytest.raises(StoppedEarly), asked_to_stop(lambda: True, bounded):
        RunSession(bounded, asked=lambda: True).wait_for(start)
    assert not start.is_open


def test_without_a_stop_the_error_of_the_start_remains(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        RunSession(Shop(tmp_path).spec()).wait_for(SessionStart(killed))
