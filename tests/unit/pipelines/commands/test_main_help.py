"""The output of --help: every command once, in a group; usage in words of the command; examples that can be typed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from penstock.pipelines.commands.arguments import example_of
from penstock.pipelines.commands.main import COMMANDS, main, overview
from penstock.table.catalog.catalog import Catalog


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return capsys.readouterr().out


def test_the_overview_names_each_command_once() -> None:
    assert sorted(re.findall(r"^  ([a-z-]+)  ", overview(), re.MULTILINE)) == sorted(COMMANDS)


def test_each_command_has_an_example() -> None:
    assert [name for name in COMMANDS if example_of(name) is None] == []


def test_flags_without_effect_are_listed_separately_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = " ".join(help_of("remove-orphan-files", capsys).split()).replace("- ", "-")  # lines are broken at hyphens
    idle = "--mode, --batch-table-processing, --batch-size"
    assert f"Accepted, as by Paimon's commands, but without effect here: {idle}." in output
    assert output.count("--batch-size") == 1  # neither in the usage nor among the options
    Catalog(str(tmp_path)).create_database("ods")
    words = ["--warehouse", str(tmp_path), "--database", "ods", "--batch-size", "4", "--json"]
    assert main(["remove-orphan-files", *words]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["files"] == 0
    assert out.err == "warning: --batch-size has no effect here\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_uses_existing_flags(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(example_of(command) or "")
    assert words[:2] == ["penstock", command]
    output = help_of(command, capsys)
    assert [word for word in words if word.startswith("--") and word not in output] == []
    assert f"penstock {command}" in output.partition("example:")[2]


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("signal", "penstock signal FILE (pause | resume | stop | snapshot TABLE ...)"),
        ("dlq", "penstock dlq FILE (list | show | replay | drop)"),
        ("init", "penstock init SOURCE WAREHOUSE"),
    ],
)
def test_usage_shows_the_arguments_of_the_command(command: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = help_of(command, capsys)
    assert usage in " ".join(output.split())
    assert "WORD" not in output


def test_the_help_of_sql_explains_time_travel(capsys: pytest.CaptureFixture[str]) -> None:
    output = " ".join(help_of("sql", capsys).split())
    assert "FOR VERSION AS OF 3" in output
    assert "FOR TAG 'monday'" in output


def test_settings_of_flink_without_effect_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-Dparallelism.default=4", "-Dstate.backend=rocksdb", "-Dexecution.runtime-mode=batch"]
    main(["expire-snapshots", *words, "--warehouse", str(tmp_path), "--database", "d", "--table", "t"])
    assert capsys.readouterr().err.splitlines()[:2] == [
        "warning: -Dparallelism.default has no effect here: use --parallelism",
        "warning: -Dstate.backend has no effect here, as a setting of Flink",
    ]
