"""The table of docs/sql.md with expressions whose results are others than those of Spark and Flink."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

PAGE = Path(__file__).resolve().parents[5] / "docs" / "sql.md"
ROW = re.compile(r"\| `(?P<expression>.+?)` \| `(?P<here>.+?)` \| .+ \|(?: `(?P<instead>.+?)`.*)?")


def rows() -> list[re.Match[str]]:
    section = PAGE.read_text(encoding="utf-8").partition("### Same name, other result")[2].partition("\n## ")[0]
    return [found for line in section.splitlines() if (found := ROW.match(line))]


def value(expression: str) -> str:
    with duckdb.connect() as engine:
        found = engine.execute(f"SELECT {expression}").fetchone()
    assert found is not None
    return str(found[0])


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["expression"])
def test_results_are_those_of_the_page(row: re.Match[str]) -> None:
    assert value(row["expression"]) == row["here"]
    if row["instead"]:
        assert value(row["instead"].replace("\\|", "|")) != row["here"] or row["expression"].startswith("split")


def test_the_page_has_rows() -> None:
    assert len(rows()) > 10
