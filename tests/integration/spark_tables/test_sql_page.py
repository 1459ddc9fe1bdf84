"""The page about SQL, whose commands run on Spark as they do on DuckDB."""

from __future__ import annotations

import pytest

from penstock.pipelines.spark.session import open_session
from tests.pages import ROOT, run_page

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_commands_of_the_page_run_on_spark(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The session begins in the folder of the page, whose warehouse is a relative path: so do its tasks.
    monkeypatch.chdir(tmp_path_factory.mktemp("page"))
    session = open_session("page", master="local[2]")
    try:
        run_page(ROOT / "docs" / "sql.md", on_spark=True)
    finally:
        session.stop()
