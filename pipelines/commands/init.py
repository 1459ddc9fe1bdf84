"""`penstock init SOURCE WAREHOUSE`: look at a source and write a pipeline file for it."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import parse_with_words
from penstock.pipelines.commands.printing import answer
from penstock.pipelines.commands.target import JSON, text, yes
from penstock.pipelines.spec.actions import Flag

_SOURCES = "mysql://user@host:3306/database, kafka://host:9092/topic, or a folder of messages"
FLAGS = (
    Flag("output", "the file to write (pipeline.yaml)", metavar="FILE"),
    Flag("name", "name of the pipeline (the database, topic or folder)", metavar="NAME"),
    Flag("database", "database of the warehouse (ods)", metavar="NAME"),
    Flag("format", "how the messages are written (found by a look at them)", metavar="FORMAT"),
    Flag("offline", "do not look at the source", "bool"),
    Flag("force", "write over a file that is there", "bool"),
    JSON,
)
_DOES = f"Write a pipeline file with comments. SOURCE is {_SOURCES}."


def command(name: str, words: list[str]) -> int:
    found, given = parse_with_words(name, FLAGS, words, _DOES, "WORD", "SOURCE, then WAREHOUSE")
    if len(found) != 2:
        raise ConfigError(
            "which source, and which warehouse?", hint=f"penstock init SOURCE WAREHOUSE; SOURCE is {_SOURCES}"
        )
    target = Path(text(given, "output") or "pipeline.yaml")
    if target.exists() and not yes(given, "force"):
        raise ConfigError(f"{target} is there already", hint="--output names another file, --force writes over it")
    from penstock.pipelines.commands.drafts import draft_of

    draft = draft_of(found[0], offline=yes(given, "offline"), value_format=text(given, "format"))
    content = draft.text(text(given, "name"), found[1], text(given, "database") or "ods")
    target.write_text(content, encoding="utf-8")
    facts = {"file": str(target), "source": draft.kind, "found": draft.found}
    said = "\n".join([f"{target} written. {draft.found}", *draft.next_steps(target)])
    return answer(given, facts, said)
