"""The pages that need a broker, or only Spark, run with both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kafka.conftest import Broker
from tests.pages import pages, run_page
from tests.shop import change

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("page", pages("kafka") + pages("spark"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name == "README.md":
        broker.send(broker.topic(name="orders"), change("INSERT", "orders", {"id": 1, "status": "new"}))
    run_page(page, {"localhost:9092": f"127.0.0.1:{broker.port}"})
