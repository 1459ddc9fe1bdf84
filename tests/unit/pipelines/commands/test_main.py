from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import PositionLost
from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.commands.main import COMMANDS, main, shown

ROOT = Path(__file__).resolve().parents[4]


HEAVY = ("pyspark", "pyarrow", "numpy", "pydantic", "yaml")
MOST_MODULES = 220  # there are 193


def test_help_imports_no_heavy_modules() -> None:
    code = (
        "import sys; from penstock.pipelines.commands.main import main; main(['--help']);"
        # The number of modules and not the time, which doubles on a busy machine.
        f"print(len(sys.modules) < {MOST_MODULES}, [m for m in (*{HEAVY}, 'argparse') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("True []\n")
    assert "kafka-sync-table" in done.stdout


def test_help_of_each_command_imports_no_heavy_modules() -> None:
    code = (
        "import contextlib, io, sys\n"
        "from penstock.pipelines.commands.main import COMMANDS, main\n"
        "for name in COMMANDS:\n"
        "    before = len(sys.modules)\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        main([name, '--help'])\n"
        f"    heavy = [m for m in {HEAVY} if m in sys.modules]\n"
        # The number of modules and not the time, as above: there are up to 14 of them.
        "    if heavy or len(sys.modules) - before > 40:\n"
        "        print(name, heavy, len(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.slow
def test_the_process_of_a_command_ends_without_a_search_for_garbage() -> None:
    code = (
        "import gc, sys; from penstock.pipelines.commands.main import main; sys.argv[1:] = ['--version']; main();"
        "print(gc.get_freeze_count() > 1000, gc.get_threshold()[0] > 1000, gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("True True True\n")


def test_a_program_that_calls_a_command_keeps_its_search_for_garbage(capsys: pytest.CaptureFixture[str]) -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    assert main(["--version"]) == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_can_answer_in_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["migrate-table", "migrate_database"])
def test_an_unsupported_action_names_an_alternative(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([action, "--warehouse", "/x", "--database", "d"]) == 2
    stderr = capsys.readouterr().err
    assert "is not supported" in stderr
    assert 'write it with  df.write.format("penstock")' in stderr


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("rollback_to_watermark", 'penstock sql "CALL sys.rollback_to_watermark(table, watermark)"'),
        ("trigger-tag-automatic-creation", "CALL sys.trigger_tag_automatic_creation(table)"),
        ("purge_files", "purge-files is not supported\n  to repair  TRUNCATE TABLE"),
        ("sqlserver_sync_table", "kafka-sync-database  and value.format=debezium-json"),
    ],
)
def test_an_action_that_is_only_a_procedure_names_it(
    action: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([action, "--warehouse", "/x", "--database", "d", "--table", "t"]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_command_is_reported_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka_sync_tabel"]) == 2
    assert "did you mean kafka-sync-table?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["check", "plan", "verify"])
def test_a_command_says_that_it_accepts_a_sync_action_instead_of_a_file(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = "".join(capsys.readouterr().out.split())  # a name may be divided at the end of a line
    assert "orasyncactionsuchasmysql-sync-database,whoseflagsfollowit" in shown


def test_a_typographic_dash_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka-sync-table", "\u2013\u2013warehouse", "/x"]) == 2
    assert "write --warehouse" in capsys.readouterr().err


def test_an_error_shows_its_facts_in_a_column_and_the_hint_last() -> None:
    error = PositionLost("gone", topic="t", stopped_at=5, hint="go on")
    assert shown(error) == "error: gone\n  topic       t\n  stopped at  5\n  to repair   go on"


def test_a_command_may_have_no_arguments() -> None:
    assert parse("demo", (), [], "") == {}


def test_errors_show_a_traceback_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, words: list[str]) -> int:
        raise PermissionError(13, "Permission denied", "/data/x")

    monkeypatch.setattr("penstock.pipelines.commands.sql.command", refused, raising=False)
    monkeypatch.setitem(COMMANDS, "sql", ("penstock.pipelines.commands.sql", ""))
    assert main(["sql", "select 1"]) == 12
    stderr = capsys.readouterr().err
    assert stderr.startswith("error: PermissionError: Permission denied\n  file ")
    assert "Traceback" not in stderr
    assert main(["sql", "select 1", "--debug"]) == 12
    stderr = capsys.readouterr().err
    assert stderr.startswith("Traceback")
    assert stderr.endswith("PermissionError: [Errno 13] Permission denied: '/data/x'\n")
    assert main(["sql", "select 1", "--json"]) == 12
    assert json.loads(capsys.readouterr().err)["facts"] == {"file": "/data/x"}


def test_a_closed_output_pipe_is_not_an_error() -> None:
    code = "import sys; from penstock.pipelines.commands.main import main; sys.exit(main(['--help']))"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(240) == 141
        assert process.stderr.read() == b""
