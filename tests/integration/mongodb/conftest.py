"""The stand-in server for the session, or the real one at MONGODB_URI."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.integration.mongodb.sync import MongoPlayground
from tests.servers.launch import running


@pytest.fixture(scope="session")
def server_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("MONGODB_URI")
    if given:
        yield given
        return
    with running("mongodb", tmp_path_factory.mktemp("mongodb")) as port:
        yield f"mongodb://127.0.0.1:{port}/"


@pytest.fixture
def server(server_address: str) -> Iterator[MongoPlayground]:
    with MongoPlayground.at(server_address) as found:
        found.start_over()
        yield found
