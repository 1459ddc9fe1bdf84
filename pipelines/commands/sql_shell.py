"""The shell of `penstock sql`: statements of several lines, a history, completion; errors do not end it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.commands.main import shown
from penstock.pipelines.commands.sql_results import Results
from penstock.pipelines.monitor.unexpected_error import unexpected
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.interpreter import Interpreter

_HELP = """Statements end with ; and may have several lines. Tab completes names and keywords. The arrows up and down
show the history, Ctrl-R searches it. Ctrl-C drops what is typed, or ends a statement or a stream; Ctrl-D, quit; or \\q
ends the shell.
SHOW TABLES; DESCRIBE t; SHOW CREATE TABLE t; SHOW PROCEDURES; SET 'execution.runtime-mode' = 'streaming';"""
_QUIT = {"quit", "exit", "\\q"}
_CREATE_CATALOG = re.compile(r"\bcreate\s+catalog\b", re.IGNORECASE)


def is_complete(text: str) -> bool:
    """Return whether the text ends with a statement's semicolon, or is a command of the shell."""
    if text.lstrip().startswith("\\"):
        return True  # commands of psql, which no semicolon ends
    solid = [token.text for token in tokens_of(text) if token.kind != "blank"]
    return not solid or solid[-1] == ";" or (len(solid) == 1 and solid[0].lower() in {*_QUIT, "help"})


def run_shell(interpreter: Interpreter, results: Callable[[], Results]) -> None:
    """Read statements from the terminal and show their results, until the user ends the shell."""
    session = _prompt_session(interpreter)
    print("Statements end with ;  help; shows more, Ctrl-D ends the shell.")
    while True:
        try:
            text = str(session.prompt(f"{interpreter.database or 'sql'}> "))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return _run(interpreter, "", results(), ends=True)
        match text.strip().rstrip(";").strip().lower():
            case "":
                continue
            case word if word in _QUIT:
                return _run(interpreter, "", results(), ends=True)
            case word if word.startswith("\\"):
                print(f"the command {word} is unknown; help; lists those of the shell", file=sys.stderr)
            case "help":
                print(_HELP)
            case _:
                _run(interpreter, text, results())


def _run(interpreter: Interpreter, text: str, shown_results: Results, *, ends: bool = False) -> None:
    """Run the typed statements. The effects before an error or Ctrl-C remain, as in a script.

    At the end of the shell a statement set that is open is an error, as at the end of a script.
    """
    with closing(interpreter.run(text, ends=ends)) as tables:
        try:
            for rows in tables:
                shown_results.show(rows, is_stream=interpreter.is_streaming)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        except (PenstockError, OSError) as error:
            print(shown(error if isinstance(error, PenstockError) else unexpected(error)), file=sys.stderr)


def history_file() -> Path:
    """Return the file of the history, which only its user can read."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(state) / "penstock" / "sql_history"
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Values of statements may be confidential.
    os.close(os.open(file, os.O_CREAT | os.O_APPEND, 0o600))
    return file


def _prompt_session(interpreter: Interpreter) -> Any:  # the session of an optional library
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    except ImportError as reason:
        raise ConfigError(
            "the shell needs prompt-toolkit",
            hint="penstock sql 'statement' and -f FILE need no shell; for it pip install prompt-toolkit",
        ) from reason

    class NameCompleter(Completer):
        def get_completions(self, document: Any, _event: object) -> Iterable[Completion]:
            found = interpreter.completions(document.text_before_cursor)
            return [Completion(word, start_position=-found.length) for word in found.words]

    class StatementHistory(FileHistory):
        def store_string(self, string: str) -> None:
            # Options of a catalog may be secrets.
            if not _CREATE_CATALOG.search(string):
                super().store_string(string)

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return PromptSession(
        history=StatementHistory(str(history_file())),
        completer=NameCompleter(),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation="    ",
        key_bindings=keys,
    )
