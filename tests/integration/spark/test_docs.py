"""The pages that need Spark alone, run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import pages, run_page

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("page", pages("spark"), ids=lambda page: page.name)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)
