"""Patterns of source tables that match none: a table may be missing because of a letter."""

from __future__ import annotations

import pytest

from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.unmet_patterns import unmet_patterns, warn_of_unmet_patterns

FOUND = {("adb", "t1"), ("app", "order_1")}


def spec(*tables: str) -> PipelineSpec:
    server = {"type": "mysql", "hostname": "db", "username": "cdc", "password": "x", "tables": list(tables)}
    return parsed({"source": server, "sink": {"catalog": {"warehouse": "/w"}, "database": "ods"}})


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("adb.*", None),
        ("app.order_[0-9]+", None),
        ("[app|web].order_\\.*", "write (a|b) for either word"),
        ("bdb.user_.*", "tables that appear later are captured"),
    ],
)
def test_a_pattern_that_matches_no_table_is_named(pattern: str, hint: str | None) -> None:
    found = list(unmet_patterns(spec("adb.t1", pattern), FOUND))
    assert [message for message, _ in found] == ([f"{pattern} matches no captured table"] if hint else [])
    assert all((hint or "") in said for _, said in found)


def test_a_start_does_not_warn_of_tables_that_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_unmet_patterns(spec("adb.*", "bdb.keyless", "bdb.nowhere"), FOUND, lambda: {("bdb", "keyless")})
    (said,) = [message for message in caplog.messages if "event=pattern_without_table" in message]
    assert "bdb.nowhere" in said
    warn_of_unmet_patterns(spec("adb.*"), FOUND, lambda: pytest.fail("no pattern is unmet"))
