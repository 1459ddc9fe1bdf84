"""Which runs start Spark's JVM before they read their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api import run as running
from penstock.pipelines.commands import run, sync
from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.start_mark import StartMark
from tests.shop import Shop


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what was done, in order."""
    done: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(first_jvm, "start", lambda *given: done.append("jvm"))
    monkeypatch.setattr(running, "run_command", lambda *given, **named: done.append("run") or 0)
    return done


@pytest.mark.parametrize("flags", [[], ["--until-caught-up"]])
def test_only_a_run_that_probably_needs_spark_starts_the_jvm_first(
    flags: list[str], order: list[str], tmp_path: Path
) -> None:
    shop = Shop(tmp_path)
    (tmp_path / "shop.yaml").write_text(
        f"pipeline: {{name: shop}}\n"
        f"source: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {tmp_path}/warehouse}}, database: ods}}\n"
    )
    words = [str(tmp_path / "shop.yaml"), *flags]
    assert run.command("run", words) == 0
    assert order == ["run"]
    StartMark.of(["run", *words]).note(needed=True)
    assert run.command("run", words) == 0
    assert order == ["run", "jvm", "run"]


@pytest.mark.parametrize("flags", [[], ["--until-caught-up"]])
def test_a_sync_action_does_the_same(flags: list[str], order: list[str], tmp_path: Path) -> None:
    words = ["--warehouse", str(tmp_path), "--database", "ods", "--table", "t"]
    conf = ["properties.bootstrap.servers=127.0.0.1:1", "topic=t", "value.format=canal-json"]
    given: list[Any] = [*words, *(word for setting in conf for word in ("--kafka_conf", setting)), *flags]
    assert sync.command("kafka-sync-table", given) == 0
    assert order == ["run"]
    StartMark.of(["kafka-sync-table", *given]).note(needed=True)
    assert sync.command("kafka-sync-table", given) == 0
    assert order == ["run", "jvm", "run"]


def test_a_run_with_two_values_of_one_flag_does_not_begin(order: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--checkpoint has two values: '/a' and '/b'"):
        run.command("run", [str(tmp_path / "shop.yaml"), "--checkpoint", "/a", "--checkpoint", "/b"])
    assert order == []
