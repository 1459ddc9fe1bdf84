"""The shell of `penstock sql`, typed into a terminal, and what it completes."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock
from penstock.pipelines.commands.sql_shell import history_file, is_complete
from penstock.table.sql.interpreter import Interpreter
from tests.waiting import LIMIT_S, until

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_PROGRAM = "import sys; from penstock.pipelines.commands.main import main; sys.exit(main())"


class Terminal:
    """A terminal in which a command runs."""

    def __init__(self, words: list[str], state: Path) -> None:
        self._own, other = pty.openpty()
        settings = {"XDG_STATE_HOME": str(state), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "200"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, **settings},
            start_new_session=True,
        )
        os.close(other)
        # A reading may end in the middle of a character.
        self._shown, self._text = "", codecs.getincrementaldecoder("utf-8")()
        self._shows = select.poll()
        self._shows.register(self._own, select.POLLIN)

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def expect(self, pattern: str, seconds: float = LIMIT_S) -> str:
        """Return what was shown up to the pattern."""
        end = time.monotonic() + seconds
        while True:
            plain = _ESCAPES.sub("", self._shown)
            if found := re.search(pattern, plain):
                self._shown = plain[found.end() :]
                return plain[: found.end()]
            assert time.monotonic() < end, f"{pattern} did not appear in {plain!r}"
            if self._shows.poll(200):
                self._shown += self._text.decode(os.read(self._own, 65536))


@pytest.mark.slow
def test_statements_are_typed_completed_and_remembered(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    penstock.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT, amount INT)", warehouse)
    terminal = Terminal(["sql", "--warehouse", str(warehouse)], tmp_path)
    terminal.expect(r"sql>")
    terminal.type("use shop;\r")
    terminal.expect(r"shop>")
    terminal.type("insert into shop.or\t")
    terminal.expect(r"ders")  # Tab completes the name
    terminal.type("\rvalues (1, 7),\r(2, 8);\r")
    terminal.expect(r"2 +0 +0 +1\s")
    terminal.type("frob;\r")
    terminal.expect(r"FROB is not a supported statement")
    terminal.type("select amou")
    terminal.type("\x03")  # Ctrl-C drops what is typed
    terminal.type("set 'execution.runtime-mode' = 'streaming'; select id from orders;\r")
    terminal.expect(r"\+I +2")
    # The terminal is not that of a session of its own, and so turns no Ctrl-C into a signal.
    terminal.process.send_signal(signal.SIGINT)  # ends the stream, not the shell
    terminal.expect(r"shop>")
    terminal.type("begin statement set;\r")
    terminal.expect(r"shop>")
    terminal.type("end;\r")
    terminal.expect(r"OK")
    terminal.type("\\d orders\r")
    terminal.expect(r"the command .d orders is unknown; help; lists")
    terminal.type("begin statement set;\r")
    terminal.expect(r"shop>")
    terminal.type("\\q\r")
    terminal.expect(r"the statement set has no END")
    assert terminal.process.wait(240) == 0
    history = (tmp_path / "penstock" / "sql_history").read_text(encoding="utf-8")
    assert "+insert into shop.orders" in history
    assert (tmp_path / "penstock" / "sql_history").stat().st_mode & 0o77 == 0


@pytest.mark.slow
def test_ctrl_c_ends_a_long_statement_and_not_the_shell(tmp_path: Path) -> None:
    terminal = Terminal(["sql", "--warehouse", str(tmp_path / "warehouse")], tmp_path)
    terminal.expect(r"sql>")
    before = cpu_seconds(terminal.process)
    terminal.type("select count(*) from range(100000000) a, range(1000000) b where a.range % 7 = b.range % 11;\r")
    until(lambda: cpu_seconds(terminal.process) > before + 2, "the query computes")
    terminal.process.send_signal(signal.SIGINT)
    terminal.expect(r"interrupted")
    terminal.type("select 40 + 2 as answer;\r")
    terminal.expect(r"42")
    terminal.type("quit;\r")
    assert terminal.process.wait(240) == 0


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_catalogs_are_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.pipelines.commands.sql_shell import _prompt_session

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")
    with Interpreter() as interpreter:
        history = _prompt_session(interpreter).history
        history.append_string("CREATE CATALOG c WITH ('password' = 'secret');")
        history.append_string("SHOW TABLES;")
    assert "secret" not in history_file().read_text(encoding="utf-8")
    assert "SHOW TABLES" in history_file().read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "complete"),
    [("select 1", False), ("select ';'", False), ("select 1; -- x", True), ("quit", True), ("", True), ("\\q", True)],
)
def test_a_statement_is_complete_behind_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
