"""Which script starts a server: that of its kind, or one for an image of Docker."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.servers import launch


def test_a_kind_with_an_image_is_started_by_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, str | None]] = []

    def run(words: list[Any], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        called.append((Path(words[0]).name, env.get("IMAGE")))
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.delenv("IMAGE", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv(launch.image_variable("mysql"), "mysql:8.4")
    kinds: tuple[launch.Kind, ...] = ("mysql", "mariadb", "mariadb-11.8")
    for kind in kinds:
        launch.stop(kind, Path("nowhere"))
    assert called == [("container.sh", "mysql:8.4"), ("mariadb.sh", None), ("mariadb.sh", None)]
