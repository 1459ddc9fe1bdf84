"""Which way a server is started: by the script of its kind, or from an image of Docker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.servers import containers, launch


class FakeContainer:
    """A container of testcontainers, and the one of Docker that it wraps, which notes what it is asked for."""

    def __init__(self, image: str, **settings: Any) -> None:
        self.asked: list[Any] = [("image", image, settings)]
        self.status = "running"

    def with_command(self, words: list[str]) -> FakeContainer:
        self.asked.append(("command", words))
        return self

    def with_envs(self, **variables: str) -> FakeContainer:
        return self

    def with_copy_into_container(self, content: bytes, path: str) -> FakeContainer:
        self.asked.append(("copy", path, b"'cdc'@'%'" in content))
        return self

    def get_wrapped_container(self) -> FakeContainer:
        return self

    def reload(self) -> None:
        pass

    def start(self) -> None:
        self.asked.append("start")

    def kill(self) -> None:
        self.asked.append("kill")

    def stop(self, **limits: float) -> None:
        self.asked.append(("stop", limits))


def test_a_kind_with_an_image_is_started_by_testcontainers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = ModuleType("testcontainers.core.container")
    library.DockerContainer = FakeContainer  # type: ignore[attr-defined]
    for name in ("testcontainers", "testcontainers.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, library.__name__, library)
    monkeypatch.setattr(containers, "_await_answer", lambda *_: None)
    monkeypatch.setenv(launch.image_variable("mysql"), "mysql:8.4")
    with launch.running("mysql", tmp_path, "--own=1") as port:
        made: Any = containers._started[tmp_path.resolve()]
        launch.kill("mysql", tmp_path)
        launch.start("mysql", tmp_path, port)
        launch.stop("mysql", tmp_path)
    image, (_, words), copy, *steps = made.asked
    assert image == ("image", "mysql:8.4", {"docker_client_kw": {"timeout": 600}, "network_mode": "host"})
    assert f"--port={port}" in words
    assert words[-1] == "--own=1"
    assert copy == ("copy", "/docker-entrypoint-initdb.d/users.sql", True)
    assert steps == ["start", "kill", "start", ("stop", {"timeout": 60}), ("stop", {})]
    assert tmp_path.resolve() not in containers._started


def test_a_kind_without_an_image_is_started_by_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def run(words: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        called.append(Path(words[0]).name)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv(launch.image_variable("mysql"), "mysql:8.4")
    kinds: tuple[launch.Kind, ...] = ("mariadb", "mariadb-11.8")
    for kind in kinds:
        launch.stop(kind, Path("nowhere"))
    assert called == ["mariadb.sh", "mariadb.sh"]
