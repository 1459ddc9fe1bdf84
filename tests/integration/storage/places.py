"""Warehouses in object stores of other makers than moto, as the tests of whole pipelines need them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import azure, google, launch, s3


@dataclass(frozen=True)
class Place:
    """A folder of a store as a URL, the options of a client for it, and what these refer to in the environment."""

    url: str
    options: dict[str, str]
    environment: dict[str, str]


@contextmanager
def place(kind: str, folder: Path) -> Iterator[Place]:
    with ExitStack() as open_things:
        yield _OPENED[kind](folder, open_things)


def _azure(folder: Path, open_things: ExitStack) -> Place:
    port = open_things.enter_context(launch.running("azurite", folder))
    endpoint = f"http://127.0.0.1:{port}/{azure.ACCOUNT}"
    azure.create_container(endpoint, "lake")
    options = {"object-store.endpoint": endpoint, "fs.azure.account.key": "${PLACE_KEY}"}
    return Place(f"abfss://lake@{azure.ACCOUNT}.dfs.core.windows.net", options, {"PLACE_KEY": azure.KEY})


def _google(folder: Path, open_things: ExitStack) -> Place:
    server = open_things.enter_context(google.running())
    key = folder / "key.json"
    key.write_text(server.key_file())
    return Place(f"gs://{google.BUCKET}", {"fs.gs.auth.service.account.json.keyfile": str(key)}, {})


def gateway(folder: Path, open_things: ExitStack) -> str:
    """Return the address of Versity's gateway with the bucket `lake`.

    Skip the test if the gateway is not built: building takes minutes, too long for a test.
    """
    if subprocess.run([launch.HERE / "versitygw.sh", "is-built"], check=False).returncode:
        pytest.skip("CANNOT RUN HERE: Versity's S3 gateway is not built:  python -m tests.prepare --night  builds it")
    port = open_things.enter_context(launch.running("versitygw", folder))
    endpoint = f"http://127.0.0.1:{port}"
    s3.create_bucket(endpoint)
    return endpoint


def _s3(folder: Path, open_things: ExitStack) -> Place:
    endpoint = gateway(folder, open_things)
    options = {"s3.endpoint": endpoint, "s3.access-key": s3.ACCESS_KEY, "s3.secret-key": "${PLACE_KEY}"}
    return Place("s3://lake", {**options, "s3.path.style.access": "true"}, {"PLACE_KEY": s3.SECRET_KEY})


_OPENED = {"azure": _azure, "google": _google, "s3gateway": _s3}
