"""The page about SQL, whose commands run on Spark as they do on DuckDB."""

from __future__ import annotations

import pytest

from penstock.pipelines.spark.session import open_session
from tests.pages import ROOT, run_page

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_commands_of_the_page_run_on_spark(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The warehouse of the page is a relative path, and the tasks of the session have the folder where it began.
    session = open_session("page", master="local[2]")
    monkeypatch.chdir(tmp_path_factory.mktemp("page"))
    try:
        run_page(ROOT / "docs" / "sql.md", on_spark=True)
    finally:
        session.stop()
