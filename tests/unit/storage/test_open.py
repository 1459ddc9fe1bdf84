"""Spellings of places, and places that a flag and an option name both."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.storage.open import is_same_place, one_place


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://lake/w", "s3a://lake/w/"),
        ("S3N://lake/w", "s3://lake/w"),
        ("abfs://c@a.dfs.core.windows.net/w", "abfss://c@a.dfs.core.windows.net/w"),
        ("file:/w", "/w"),
        ("file:///w/", "/w"),
        ("./w", "w"),
    ],
)
def test_spellings_of_one_place_are_no_contradiction(one: str, other: str) -> None:
    assert is_same_place(one, other)
    assert one_place("--warehouse", one, "--catalog-conf", other) == one


@pytest.mark.parametrize("other", ["s3://lake/w2", "s3://lake2/w", "gs://lake/w", "/lake/w", "hdfs://lake/w"])
def test_different_places_are_refused(other: str) -> None:
    with pytest.raises(ConfigError, match="--warehouse is s3://lake/w, and --catalog-conf warehouse="):
        one_place("--warehouse", "s3://lake/w", "--catalog-conf", other)


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_text_names_no_place(empty: str | None, tmp_path: Path) -> None:
    """Such as a variable that is not set: the current folder would be taken for the warehouse."""
    assert one_place("--warehouse", empty, "--catalog-conf", str(tmp_path)) == str(tmp_path)
    assert one_place("--warehouse", str(tmp_path), "--catalog-conf", empty) == str(tmp_path)
    assert one_place("--warehouse", empty, "--catalog-conf", "") is None
