"""Real Hive metastores: of 2.3 for the session, and others for the tests of versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.servers.launch import Kind, running

_KINDS: dict[str, Kind] = {"2.3": "hive", "3.1": "hive-3.1", "4.0": "hive-4.0"}


@contextmanager
def metastore_of(series: str, folder: Path) -> Iterator[str]:
    """The address of a metastore of a series of Hive, whose data are in `folder`."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PENSTOCK_SPARK_JARS", str(Path(pyspark.__file__).parent / "jars"))
        with running(_KINDS[series], folder) as port:
            yield f"thrift://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a metastore of 2.3, for catalogs with databases of other names in each test."""
    with metastore_of("2.3", tmp_path_factory.mktemp("hive")) as address:
        yield address
