from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.errors import PositionLost
from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.commands.main import main, shown

ROOT = Path(__file__).resolve().parents[3]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from penstock.pipelines.commands.main import main; main(['--help']);"
        "print([m for m in ('pyspark', 'pyarrow', 'numpy', 'pydantic', 'yaml', 'argparse') if m in sys.modules])"
    )
    began = time.process_time()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert time.process_time() - began < 0.2
    assert done.stdout.endswith("[]\n")
    assert "kafka-sync-table" in done.stdout


def test_an_unknown_command_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka_sync_tabel"]) == 2
    assert "did you mean kafka-sync-table?" in capsys.readouterr().err


def test_a_typographic_dash_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka-sync-table", "\u2013\u2013warehouse", "/x"]) == 2
    assert "write --warehouse" in capsys.readouterr().err


def test_an_error_shows_its_facts_in_a_column_and_the_repair_last() -> None:
    error = PositionLost("gone", topic="t", stopped_at=5, hint="go on")
    assert shown(error) == "error: gone\n  topic       t\n  stopped at  5\n  to repair   go on"


def test_a_command_may_come_without_any_word() -> None:
    assert parse("demo", (), [], "") == {}
