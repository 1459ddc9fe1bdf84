"""The pages that need a Spark session run in one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pages import pages, run_page

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", pages("session"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        run_page(page, given={"spark": spark})
    finally:
        spark.sql("USE spark_catalog.default")  # a page may leave the session in another catalog
