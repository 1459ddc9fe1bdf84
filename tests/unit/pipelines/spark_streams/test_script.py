"""Statements of a script on Spark that are refused before Spark gets one."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark_streams.script import SparkScript


@pytest.mark.parametrize("more", ["", "; BEGIN STATEMENT SET; INSERT INTO t VALUES (2); END"])
def test_a_statement_set_without_end_writes_nothing(more: str) -> None:
    script = SparkScript(cast("Any", None))
    with pytest.raises(ConfigError, match="the statement set has no END") as refused:
        list(script.run(f"BEGIN STATEMENT SET;\nINSERT INTO t VALUES (1){more}"))
    assert refused.value.facts["line"] == 1
