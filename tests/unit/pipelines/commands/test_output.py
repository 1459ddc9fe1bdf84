"""Foreign data in the output of commands: it keeps its columns and cannot control the terminal."""

from __future__ import annotations

import pytest

from penstock.errors import DecodeError
from penstock.pipelines.commands.main import shown as error_shown
from penstock.pipelines.commands.output import print_facts, print_rows


def test_values_cannot_break_lines_or_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["name\n", "n"], [["a\x1b[2Jb\r\nc", 1], ["\u202egnp", 22], ["\ud800", 3]])
    print_facts({"comment": "one\ntwo"})
    assert capsys.readouterr().out.splitlines() == [
        "name\\n           n",
        "--------------  --",
        "a\\x1b[2Jb\\r\\nc   1",
        "\\u202egnp       22",
        "\\ud800           3",
        "comment  one\\ntwo",
    ]


def test_wide_letters_keep_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["name", "n"], [["日本", 1], ["e\u0301a", 2], ["abcd", 3]])
    assert capsys.readouterr().out.splitlines() == ["name  n", "----  -", "日本  1", "e\u0301a    2", "abcd  3"]


def test_an_error_escapes_the_record_it_shows() -> None:
    assert "\x1b" not in error_shown(DecodeError("it is no JSON", record="\x1b]0;owned\x07{"))
