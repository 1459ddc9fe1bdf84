"""The page about PostgreSQL, run against a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground
from tests.pages import pages, run_page

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("page", pages("postgres"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path, server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drop = "DROP DATABASE IF EXISTS shop WITH (FORCE)"
    server.run(drop, database="postgres")
    try:
        run_page(page, {"5432": str(server.port)})
    finally:
        server.start_over()
        server.run(drop, database="postgres")
