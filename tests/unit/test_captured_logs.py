"""Logs that pytest captures are plain text, and no test sees the log settings of an earlier one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger

from penstock.pipelines.monitor.logs import log_to_stderr


@pytest.fixture(scope="module", autouse=True)
def json_logger() -> Iterator[None]:
    """Make a logger such as PySpark makes for an error of SQL."""
    logger = PySparkLogger.getLogger("PenstockTestLogger")
    logger.propagate = False
    yield
    logger.propagate = True


@pytest.mark.parametrize("time", ["first", "second"])
def test_captured_logs_are_plain_text(caplog: pytest.LogCaptureFixture, time: str) -> None:
    logging.getLogger("penstock.test").warning('%s "quoted"', time)
    assert caplog.text.endswith(f'{time} "quoted"\n')
    assert not caplog.text.startswith("{")


@pytest.mark.parametrize("time", ["first", "second"])
def test_log_settings_end_with_the_test(caplog: pytest.LogCaptureFixture, time: str) -> None:
    logging.getLogger("penstock.test").info(time)
    assert caplog.text == ""
    log_to_stderr("info")
