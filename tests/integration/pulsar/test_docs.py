"""The pages that need a Pulsar broker run with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pulsar.conftest import Broker
from tests.pages import pages, run_page

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("page", pages("pulsar"), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    page: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, {"localhost:6650": f"127.0.0.1:{broker.port}", "localhost:8080": f"127.0.0.1:{broker.port + 1}"})
