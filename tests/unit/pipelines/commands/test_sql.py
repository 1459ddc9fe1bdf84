"""`penstock sql`: scripts, files, and the forms of its output."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.pipelines.commands.main import main

SCRIPT = """
CREATE DATABASE d;
CREATE TABLE d.t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED);
INSERT INTO d.t VALUES (1, 'a, "b"'), (2, NULL);
SELECT * FROM d.t ORDER BY id;
"""


@pytest.fixture
def warehouse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    (tmp_path / "script.sql").write_text(SCRIPT, encoding="utf-8")
    folder = str(tmp_path / "warehouse")
    assert main(["sql", "-f", str(tmp_path / "script.sql"), "--warehouse", folder, "--output", "json"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [result["rows"] for result in results] == [[["OK"]], [["OK"]], [[2, 0, 0, 1]], [[1, 'a, "b"'], [2, None]]]
    return folder


def test_rows_are_printed_as_table_and_as_csv(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = ["sql", "SELECT 1 AS one; SELECT * FROM d.t ORDER BY id", "--warehouse", warehouse]
    assert main(query) == 0
    assert capsys.readouterr().out == 'one\n---\n  1\n\nid  name\n--  ------\n 1  a, "b"\n 2  NULL\n'
    assert main([*query[:1], "SELECT * FROM d.t ORDER BY id", *query[2:], "--output", "csv"]) == 0
    assert capsys.readouterr().out == 'id,name\n1,"a, ""b"""\n2,\n'


def test_no_value_and_the_empty_text_look_different(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "SELECT '' AS empty, NULL AS nothing, 1 AS one", "--warehouse", warehouse]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "          NULL    1"


def test_values_are_printed_as_they_were_written(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    columns = [
        ("0.1::FLOAT AS f", "0.1", 0.1),
        ("[0.3::FLOAT, NULL] AS l", '"[0.3, null]"', [0.3, None]),
        ("{'a': 0.7::FLOAT, 'b': 'ä'} AS s", '"{""a"": 0.7, ""b"": ""ä""}"', {"a": 0.7, "b": "ä"}),
        ("MAP {1: MAP {'a': INTERVAL 3 DAY}} AS m", '"{""1"": {""a"": ""3 days""}}"', {"1": {"a": "3 days"}}),
        ("MAP {0.1::FLOAT: INTERVAL 3 DAY} AS k", '"{""0.1"": ""3 days""}"', {"0.1": "3 days"}),
        ("{'a': 1} AS plain", '"{""a"": 1}"', {"a": 1}),
        ("'' AS empty", '""', ""),
        ("NULL AS none", "", None),
    ]
    query = ["sql", f"SELECT {', '.join(text for text, _, _ in columns)}", "--warehouse", warehouse, "--output"]
    assert main([*query, "csv"]) == 0
    assert capsys.readouterr().out == f"f,l,s,m,k,plain,empty,none\n{','.join(cell for _, cell, _ in columns)}\n"
    assert main([*query, "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[value for _, _, value in columns]]


def test_csv_has_a_line_for_a_row_of_one_null(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "VALUES (NULL), ('x')", "--warehouse", warehouse, "--output", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ['""', "x"]


@pytest.mark.parametrize("words", [[], ["-f", "-"]])
def test_statements_are_read_from_standard_input(
    words: list[str], warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS rows FROM d.t;\nSELECT 7 AS seven"))
    assert main(["sql", *words, "--warehouse", warehouse, "--output", "csv"]) == 0
    assert capsys.readouterr().out == "rows\n2\nseven\n7\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["sql", *words, "--warehouse", warehouse]) == 2
    assert "no query is given" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", None)  # as with <&- in a shell
    assert main(["sql", *words, "--warehouse", warehouse]) == 2
    assert "no query is given" in capsys.readouterr().err


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_statements_that_are_no_text_are_refused(
    errors: str,
    warehouse: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = tmp_path / "latin.sql"
    script.write_bytes("SELECT 'ä'".encode("latin-1"))
    with script.open(encoding="utf-8", errors=errors) as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert main(["sql", "--warehouse", warehouse]) == 2
    assert "standard input is not UTF-8 text" in capsys.readouterr().err
    assert main(["sql", "-f", str(script), "--warehouse", warehouse]) == 2
    assert f"--file {script} is not UTF-8 text" in capsys.readouterr().err


def test_the_rows_of_the_last_statement_are_an_arrow_stream(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        code = main(["sql", "SELECT 1; SELECT id FROM d.t ORDER BY id", "--warehouse", warehouse, "--output", "arrow"])
    assert code == 0
    assert pa.ipc.open_stream(out.buffer.getvalue()).read_all().to_pydict() == {"id": [1, 2]}  # type: ignore[attr-defined]  # BytesIO


def test_a_column_with_the_name_of_kinds_is_no_stream(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ["sql", "SELECT 'a' AS op, 1 AS x; SELECT 'b' AS op FROM range(3)", "--warehouse", warehouse]
    assert main([*query, "--output", "csv"]) == 0
    assert capsys.readouterr().out == "op,x\na,1\nop\nb\nb\nb\n"
    assert main([*query, "--limit", "1"]) == 0
    assert "2 more rows" in capsys.readouterr().out
    out = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main([*query, "--output", "arrow"]) == 0
    assert pa.ipc.open_stream(out.buffer.getvalue()).read_all().to_pydict() == {"op": ["b"] * 3}  # type: ignore[attr-defined]  # BytesIO


def test_a_script_that_opens_a_catalog_needs_no_warehouse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/w'); USE CATALOG c; SHOW DATABASES"
    assert main(["sql", script, "--output", "csv"]) == 0
    assert capsys.readouterr().out.endswith("database\ndefault\n")
    assert main(["sql", "SHOW DATABASES"]) == 2
    assert "no warehouse is given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["SELECT 1", "--output", "xml"], "it can be table, json, csv, arrow"),
        (["SELECT 1", "-f", "x.sql"], "leave one of them out"),
        (["-f", "nowhere.sql"], "nowhere.sql cannot be read"),
        (["-- nothing"], "no statement is given"),
        (["--engine", "spark"], "the shell runs on DuckDB"),
        (["SELECT 1;\nFROB d.t"], "line       2"),
    ],
)
def test_wrong_arguments_are_refused(
    warehouse: str,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert main(["sql", *words, "--warehouse", warehouse]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_stream_is_one_result_in_several_parts(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    inserts = "INSERT INTO d.t VALUES (3, 'c'); INSERT INTO d.t VALUES (4, 'd')"
    assert main(["sql", inserts, "--warehouse", warehouse]) == 0
    capsys.readouterr()
    query = "SELECT id FROM d.t /*+ OPTIONS('scan.snapshot-id' = '2') */"
    words = ["sql", query, "--warehouse", warehouse, "--stream", "--until-caught-up"]
    assert main([*words, "--output", "csv"]) == 0
    assert capsys.readouterr().out == "op,id\n+I,3\n+I,4\n"
    assert main(words) == 0
    assert capsys.readouterr().out == "op  id\n--  --\n+I   3\n\nop  id\n--  --\n+I   4\n"


def test_the_rows_of_a_stream_are_one_arrow_stream(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO())
    main(["sql", "INSERT INTO d.t VALUES (3, 'c')", "--warehouse", warehouse])
    query = "SELECT id FROM d.t /*+ OPTIONS('scan.snapshot-id' = '1') */"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main(["sql", query, "--warehouse", warehouse, "--stream", "--until-caught-up", "--output", "arrow"]) == 0
    rows = pa.ipc.open_stream(out.buffer.getvalue()).read_all()  # type: ignore[attr-defined]  # BytesIO
    assert rows.to_pydict() == {"op": ["+I"] * 3, "id": [1, 2, 3]}


def test_a_stream_without_new_rows_has_its_columns(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT id, id + 0.5 AS more FROM d.t /*+ OPTIONS('scan.mode' = 'latest') */"
    words = ["sql", f"{query} UNION ALL {query}", "--warehouse", warehouse, "--stream", "--until-caught-up"]
    assert main([*words, "--output", "csv"]) == 0
    assert capsys.readouterr().out == "op,id,more\n"
    out = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main([*words, "--output", "arrow"]) == 0
    rows = pa.ipc.open_stream(out.buffer.getvalue()).read_all()  # type: ignore[attr-defined]  # BytesIO
    assert (rows.num_rows, rows.schema.field("id").type) == (0, pa.int32())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_stream_behind_a_commit(warehouse: str, number: signal.Signals) -> None:
    main(["sql", "CREATE TABLE d.u LIKE d.t", "--warehouse", warehouse])
    table = penstock.Catalog(warehouse).table("d.u")
    script = "INSERT INTO d.u SELECT * FROM d.t"
    words = ["sql", script, "--warehouse", warehouse, "--stream", "--output", "csv"]
    program = "import sys; from penstock.pipelines.commands.main import main; sys.exit(main())"
    with subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True) as process:
        while table.latest_snapshot is None and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(number)
        shown, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert shown == "job\nsql:d.t->d.u\njob,read_to,written,snapshot\nsql:d.t->d.u,1,2,1\n"
    assert table.scan().count() == 2


@pytest.mark.slow
def test_characters_that_the_output_lacks_are_escaped_and_refused_in_csv(tmp_path: Path) -> None:
    # As on a machine with an old locale; without the last two, Python would choose UTF-8 itself.
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    (tmp_path / "script.sql").write_text("SELECT 'ä' AS \"ü\"", encoding="utf-8")

    def printed(output: str) -> subprocess.CompletedProcess[bytes]:
        code = "from penstock.pipelines.commands.main import main; import sys; sys.exit(main())"
        words = ["sql", "--file", str(tmp_path / "script.sql"), "--warehouse", str(tmp_path), "--output", output]
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(command, env={**os.environ, **locale}, capture_output=True, check=False)

    assert b"\\xe4" in printed("table").stdout
    assert json.loads(printed("json").stdout) == {"columns": ["ü"], "rows": [["ä"]]}
    refused = printed("csv")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"standard output lacks" in refused.stderr
    assert b"PYTHONIOENCODING=utf-8" in refused.stderr


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ("INTERVAL '14 months 2 days 03:04:05.5'", "1 year 2 months 2 days 03:04:05.5"),
        ("INTERVAL '-14' MONTH", "-1 year -2 months"),
        ("INTERVAL '-1 day -1 second'", "-1 day -00:00:01"),
        ("INTERVAL '0 days'", "00:00:00"),
    ],
)
@pytest.mark.parametrize("output", ["table", "csv", "json"])
def test_an_interval_is_a_text(
    warehouse: str, capsys: pytest.CaptureFixture[str], interval: str, text: str, output: str
) -> None:
    assert main(["sql", f"SELECT {interval} AS i", "--warehouse", warehouse, "--output", output]) == 0
    assert text in capsys.readouterr().out
