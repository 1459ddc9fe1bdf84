"""The two judges understand each other: Java Paimon and pypaimon on one table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.interop.pypaimon.client import Pypaimon, PypaimonRefused

COLUMNS = [("id", "INT NOT NULL"), ("name", "STRING")]


def test_table_made_by_pypaimon_is_continued_by_java_and_read_by_both(
    oracle: Oracle, pypaimon: Pypaimon, tmp_path: Path
) -> None:
    path = pypaimon.create(tmp_path, "shop.t", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    pypaimon.write(path, pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", None]}))
    oracle.write(path, [("+U", 1, "b")])
    assert oracle.read(path).rows == [[1, "b"], [2, None]]
    assert difference(oracle.read(path), pypaimon.read(path)) is None
    assert difference(oracle.read(path, snapshot=1), pypaimon.read(path, options={"scan.snapshot-id": "1"})) is None


def test_refusal_of_pypaimon_has_its_message(pypaimon: Pypaimon, tmp_path: Path) -> None:
    with pytest.raises(PypaimonRefused, match="No schema found"):
        pypaimon.read(tmp_path / "nothing")
