"""SET in a script: what it lists, and names that differ from a known one by a letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter


def test_set_alone_lists_the_options_that_are_set(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        *_, listed = interpreter.run("SET 'pipeline.name' = 'x'; SET spark.paimon.scan.snapshot-id = 3; SET")
        assert listed.to_pylist() == [
            {"key": "pipeline.name", "value": "x"},
            {"key": "spark.paimon.scan.snapshot-id", "value": "3"},
        ]
        *_, listed = interpreter.run("RESET; SET")
        assert listed.num_rows == 0


@pytest.mark.parametrize("written", ["execution.runtime-mod", "execution.runtimemode", "pipeline.nam"])
def test_a_misspelt_option_with_an_effect_is_refused(tmp_path: Path, written: str) -> None:
    """It was accepted as an option of Flink without effect, and a stream ran as a batch."""
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter, pytest.raises(ConfigError) as refused:
        list(interpreter.run(f"SET '{written}' = 'streaming'"))
    assert "did you mean" in (refused.value.hint or "")


@pytest.mark.parametrize("written", ["execution.checkpointing.mode", "pipeline.jars", "execution.target"])
def test_options_of_flink_without_effect_are_named(tmp_path: Path, written: str) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        (said,) = interpreter.run(f"SET '{written}' = 'x'")
    assert said.to_pylist() == [{"result": f"{written} has no effect here"}]
