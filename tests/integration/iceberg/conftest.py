"""Iceberg's own REST catalog for the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.servers.launch import running


@pytest.fixture(scope="session")
def catalog_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the catalog, in which each test uses a namespace of its own."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PENSTOCK_SPARK_JARS", str(Path(pyspark.__file__).parent / "jars"))
        with running("iceberg", tmp_path_factory.mktemp("iceberg")) as port:
            yield f"http://127.0.0.1:{port}"
