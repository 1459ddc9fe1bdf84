"""`penstock sql`: SQL on the tables of a warehouse, without Spark."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse_with_word
from penstock.pipelines.commands.output import wants_json
from penstock.pipelines.commands.sql_results import OUTPUTS, Results
from penstock.pipelines.commands.target import READING, catalog_of, number, text, warehouse_and_options, yes

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.sql.interpreter import Interpreter

_ENGINES = ("duckdb", "spark")
_CREATE_CATALOG = re.compile(r"\bcreate\s+catalog\b", re.IGNORECASE)
_FLAGS = (
    *READING,
    Flag("database", "database of table names without a database", metavar="NAME"),
    Flag("file", "run the statements of this file, or of standard input for -; -f is the same", metavar="FILE"),
    Flag("output", f"{', '.join(OUTPUTS)} (default: table; --json is the same as json)", metavar="FORMAT"),
    Flag("engine", "duckdb (default), or spark: the warehouse is the catalog lake of a Spark session", metavar="NAME"),
    Flag("master", "Spark master of --engine spark (default: this machine, all cores)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; may be repeated", "pairs", "K=V"),
    Flag("stream", "read tables as streams: INSERT INTO ... SELECT and SELECT run until Ctrl-C", "bool"),
    Flag("until-caught-up", "end streams once they have processed what was there at their start", "bool"),
    Flag("limit", "maximum number of rows to print as a table (default: 100; 0 for all)", metavar="N"),
)
_QUERY = "SQL statements, separated by semicolons; without them and --file, standard input, or a shell for a terminal"
_DOES = (
    "Query, create and change the tables of a warehouse with SQL: SELECT, INSERT, UPDATE, DELETE, MERGE INTO, CREATE, "
    "ALTER, DROP, SHOW, DESCRIBE, CALL. To read an older state of a table, add one of these after its "
    "name: FOR VERSION AS OF 3 (a snapshot or a tag), FOR TAG 'monday', FOR TIMESTAMP AS OF '2026-01-31 "
    "12:00:00', or /*+ OPTIONS('scan.snapshot-id'='3') */. System tables have names such as orders$snapshots."
)


def command(name: str, words: list[str]) -> int:
    words = ["--file" if word == "-f" else word for word in words]
    script, flags = parse_with_word(name, _FLAGS, words, _DOES, "QUERY", _QUERY)
    if script is None and "file" not in flags and not _is_terminal(sys.stdin):
        script = _standard_input()
    output = _output(flags)
    if _on_spark(flags):
        if script is None and "file" not in flags:
            raise ConfigError(
                "--engine spark needs a statement or a file: the shell runs on DuckDB",
                hint='penstock sql --engine spark "SHOW TABLES" ..., or -f FILE; without --engine, a shell on DuckDB',
            )
        return _run_on_spark(_script(script, flags), Results(output, flags), flags)
    if script is None and "file" not in flags and _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
        with _interpreter(flags, needs_warehouse=False) as interpreter:
            from penstock.pipelines.commands.sql_shell import run_shell

            run_shell(interpreter, lambda: Results("table" if output == "arrow" else output, flags))
        return 0
    script = _script(script, flags)
    # A script that creates its catalog needs no warehouse among the flags.
    needs_warehouse = _CREATE_CATALOG.search(script) is None
    with _terminated_as_interrupted(), _interpreter(flags, needs_warehouse=needs_warehouse) as interpreter:
        results = Results(output, flags)
        _show(interpreter.run(script), lambda: interpreter.is_streaming, results)
        results.end()
    return 0


def _output(flags: Flags) -> str:
    """Return the form of the output. A number of rows that is not one is refused before a statement runs."""
    number(flags, "limit", least=0)
    output = (text(flags, "output") or ("json" if wants_json(flags) else "table")).lower()
    if output not in OUTPUTS:
        raise ConfigError(f"--output {output} is unknown", hint=f"it can be {', '.join(OUTPUTS)}")
    if wants_json(flags) and output != "json":
        raise ConfigError(f"--json and --output {output} are given", hint="leave one of them out")
    return output


def _on_spark(flags: Flags) -> bool:
    engine = (text(flags, "engine") or "duckdb").lower()
    if engine not in _ENGINES:
        raise ConfigError(f"--engine {engine} is unknown", hint=f"it can be {' or '.join(_ENGINES)}")
    if engine == "spark":
        return True
    for name in ("master", "spark-conf"):
        if name in flags:
            raise ConfigError(f"--{name} has no meaning with --engine {engine}", hint="add --engine spark")
    return False


def _run_on_spark(script: str, results: Results, flags: Flags) -> int:
    from penstock.pipelines.commands.spark_statements import script_of, spark_session
    from penstock.pipelines.spark_catalog.registration import place_of
    from penstock.table.catalog.settings import CatalogSettings

    settings = pairs(flags.get("spark-conf", ()))
    warehouse, options = warehouse_and_options(flags)
    # The tasks of a running session may have another current folder.
    warehouse = place_of(warehouse, options)
    opened = spark_session(warehouse, options, text(flags, "database"), text(flags, "master"), settings)
    with _terminated_as_interrupted(), opened as session:
        modes = {"streaming": yes(flags, "stream"), "until_caught_up": yes(flags, "until-caught-up")}
        running = script_of(session, CatalogSettings.of(warehouse, options), **modes)
        _show(running.run(script), lambda: running.is_streaming, results)
    results.end()
    return 0


def _show(tables: Generator[pa.Table, None, None], is_streaming: Callable[[], bool], results: Results) -> None:
    """Show the results of a script. Ctrl-C is the way to end a stream, which ends by itself between its snapshots."""
    with closing(tables):
        try:
            for rows in tables:
                results.show(rows, is_stream=is_streaming())
        except KeyboardInterrupt:
            if not is_streaming():
                raise


def _interpreter(flags: Flags, *, needs_warehouse: bool) -> Interpreter:
    from penstock.table.sql.interpreter import Interpreter
    from penstock.table.sql.session_options import STREAMING

    named = {"warehouse", "catalog-conf", "pipeline"} & flags.keys()
    catalog = catalog_of(flags) if named or needs_warehouse else None
    interpreter = Interpreter(catalog, text(flags, "database"), until_caught_up=yes(flags, "until-caught-up"))
    if yes(flags, "stream"):
        list(interpreter.run(STREAMING))
    return interpreter


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM end streams as Ctrl-C does, so that no stream leaves half of its work behind."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _script(script: str | None, flags: Flags) -> str:
    file = text(flags, "file")
    if script is not None and file is not None:
        raise ConfigError("both a statement and --file are given", hint="leave one of them out")
    if file == "-":
        script = _standard_input()
    elif file is not None:
        try:
            return Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as reason:
            raise ConfigError(f"--file {file} is not UTF-8 text", hint="save the file as UTF-8") from reason
        except OSError as reason:
            raise ConfigError(
                f"--file {file} cannot be read: {reason.strerror}",
                hint="name a file that exists and that this user may read",
            ) from reason
    if script is None or not script.strip():
        raise ConfigError("no query is given", hint='penstock sql "select * from db.t" --warehouse PATH')
    return script


def _is_terminal(stream: TextIO | None) -> bool:
    # Python has no stream for a descriptor that the parent process has closed.
    return stream is not None and stream.isatty()


def _standard_input() -> str:
    if sys.stdin is None:
        return ""
    try:
        script = sys.stdin.read()
        script.encode()  # in some locales Python reads bytes that are no text as surrogates
    except UnicodeError as reason:
        raise ConfigError("standard input is not UTF-8 text", hint="convert the statements to UTF-8") from reason
    return script
