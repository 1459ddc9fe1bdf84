"""Texts that users write as numbers: `isdigit` is true of ², which `int` does not read; `isdecimal` is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[2]
# They read bytes, whose `isdigit` is of ASCII alone, or names for other programs.
OTHERS = {"base.py", "numbered_files.py", "avro_schemas.py"}
PACKAGES = ("formats", "ingest", "pipelines", "schema_evolution", "storage", "table")


def test_the_product_asks_for_decimal_digits() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name not in OTHERS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ".isdigit()" in line
    ]
    assert found == []


@pytest.mark.parametrize(
    "statement",
    [
        "CALL sys.expire_tags(table => 'd.t', older_than => '²')",
        "CALL sys.rollback_to('d.t', '²')",
        "SELECT * FROM d.t VERSION AS OF '²'",
        "SELECT * FROM d.t /*+ OPTIONS('incremental-between' = '²,³') */",
        "SELECT * FROM d.t /*+ OPTIONS('scan.snapshot-id' = '²') */",
    ],
)
def test_a_number_that_is_none_is_refused(tmp_path: Path, statement: str) -> None:
    penstock.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (1)", warehouse=str(tmp_path))
    with pytest.raises(PenstockError, match="²"):
        penstock.sql(statement, warehouse=str(tmp_path))
