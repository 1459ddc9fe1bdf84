"""Real servers, one of each kind for the session; `server` runs a test on all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.mysql.playground import Playground
from tests.servers.launch import running


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with running("mysql", tmp_path_factory.mktemp("mysql")) as port:
        yield Playground("mysql", port)


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with running("mariadb", tmp_path_factory.mktemp("mariadb")) as port:
        yield Playground("mariadb", port)


@pytest.fixture(scope="session")
def mariadb_11_8(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A server whose log has no positions within transactions, as all have since 11.4."""
    with running("mariadb-11.8", tmp_path_factory.mktemp("mariadb-11.8")) as port:
        yield Playground("mariadb", port)


@pytest.fixture(
    params=[
        pytest.param("mysql", marks=pytest.mark.mysql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mariadb_11_8", marks=pytest.mark.mariadb),
    ]
)
def server(request: pytest.FixtureRequest) -> Playground:
    found: Playground = request.getfixturevalue(request.param)
    found.start_over()
    return found
