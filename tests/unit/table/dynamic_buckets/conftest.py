"""Key indexes that belong to one test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock.table.dynamic_buckets import index_folder


@pytest.fixture(autouse=True)
def keys_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state between commits belongs to one test, because table names come from a seed that other tests use too."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return index_folder.default_folder()
