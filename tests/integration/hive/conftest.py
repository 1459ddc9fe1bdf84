"""A real Hive metastore for the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.servers.launch import running


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a metastore, for catalogs with databases of other names in each test."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PENSTOCK_SPARK_JARS", str(Path(pyspark.__file__).parent / "jars"))
        with running("hive", tmp_path_factory.mktemp("hive")) as port:
            yield f"thrift://127.0.0.1:{port}"
