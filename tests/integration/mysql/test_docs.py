"""The pages that need a MySQL server, run against one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mysql.playground import Playground
from tests.pages import pages, run_page

pytestmark = [pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("page", pages("mysql"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path, mysql: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mysql.start_over()
    mysql.run("DROP DATABASE IF EXISTS shop")
    try:
        run_page(page, {"3306": str(mysql.port)})
    finally:
        mysql.run("DROP DATABASE IF EXISTS shop")
