"""The page about MongoDB, run against a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mongodb.sync import MongoPlayground
from tests.pages import pages, run_page

pytestmark = [pytest.mark.mongodb, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("page", pages("mongodb"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path, server: MongoPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server.client.drop_database("shop")
    try:
        run_page(page, {"127.0.0.1:27017": server.hosts})
    finally:
        server.client.drop_database("shop")
