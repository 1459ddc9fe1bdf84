"""Logs that pytest captures are plain text, also after PySpark has made loggers that write JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger


@pytest.fixture(scope="module", autouse=True)
def json_logger() -> Iterator[None]:
    """A logger such as PySpark makes for an error of SQL."""
    logger = PySparkLogger.getLogger("PenstockTestLogger")
    logger.propagate = False
    yield
    logger.propagate = True


@pytest.mark.parametrize("time", ["first", "second"])
def test_captured_logs_are_plain_text(caplog: pytest.LogCaptureFixture, time: str) -> None:
    logging.getLogger("penstock.test").warning('%s "quoted"', time)
    assert caplog.text.endswith(f'{time} "quoted"\n')
    assert not caplog.text.startswith("{")
