"""Flags as Paimon's actions take them: hyphens and underscores alike, values repeated, unknown names refused."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from penstock.errors import ConfigError, nearest
from penstock.pipelines.commands.examples import EXAMPLES
from penstock.pipelines.config.flags import Flag

Given = dict[str, list[str]]

_SYNONYMS = {"execution.checkpointing.interval": "trigger"}  # of -Dkey=value
_GONE = {"path": "use --warehouse, --database and --table instead"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"{self.prog} --help  lists the flags")


def _parser(command: str, description: str, usage: str | None = None) -> _Parser:
    example = EXAMPLES.get(command)
    return _Parser(
        prog=f"penstock {command}",
        usage=usage,
        description=description,
        epilog=f"example:  {example}" if example else None,
        allow_abbrev=False,
    )


def parse(command: str, flags: Sequence[Flag], words: Sequence[str], description: str = "") -> Given:
    """Return the values by flag name with hyphens; flags that were not used are absent. --help prints and exits."""
    given = _parsed(_parser(command, description), flags, words)
    missing = [flag.name for flag in flags if flag.required and flag.name not in given]
    if missing:
        raise ConfigError(f"--{missing[0]} is required", hint=f"penstock {command} --help  lists the flags")
    return given


def parse_with_file(command: str, flags: Sequence[Flag], words: Sequence[str], description: str) -> tuple[str, Given]:
    """The same with one FILE among the words."""
    parser = _parser(command, description)
    parser.add_argument("file", metavar="FILE", help="the pipeline, as YAML")
    given = _parsed(parser, flags, words)
    return str(given.pop("file")), given


def parse_with_word(
    command: str, flags: Sequence[Flag], words: Sequence[str], description: str, word: str, what: str
) -> tuple[str | None, Given]:
    """The same with one word that is no flag, which may be left out."""
    parser = _parser(command, description)
    parser.add_argument("word", metavar=word, nargs="?", help=what)
    given = _parsed(parser, flags, words)
    found = given.pop("word", None)
    return (None if found is None else str(found)), given


def parse_with_words(
    command: str, flags: Sequence[Flag], words: Sequence[str], description: str, usage: str, what: str
) -> tuple[list[str], Given]:
    """The same with any number of words that are no flags."""
    parser = _parser(command, description, f"penstock {command} {usage} [--flag value ...]")
    parser.add_argument("words", metavar=usage, nargs="*", help=what)
    given = _parsed(parser, flags, words, intermixed=True)
    return list(given.pop("words", [])), given


def _parsed(
    parser: argparse.ArgumentParser, flags: Sequence[Flag], words: Sequence[str], *, intermixed: bool = False
) -> Given:
    idle = [flag.name for flag in flags if not flag.has_effect]
    if idle:
        listed = f"Accepted, as by Paimon's commands, but without effect here:  {', '.join(f'--{one}' for one in idle)}"
        parser.description = f"{(parser.description or '').rstrip('.')}. {listed}."
    for flag in flags:
        shown = flag.help if flag.has_effect else argparse.SUPPRESS
        if flag.kind == "bool":
            parser.add_argument(f"--{flag.name}", nargs="?", const="true", action="append", metavar="BOOL", help=shown)
        else:
            parser.add_argument(f"--{flag.name}", action="append", metavar=flag.metavar or "TEXT", help=shown)
    parse_args = parser.parse_known_intermixed_args if intermixed else parser.parse_known_args
    known, rest = parse_args(_switched(_normal(words), {f.name for f in flags if f.kind == "bool"}))
    if rest:
        raise _unknown(rest[0], flags, parser.prog)
    given = {name.replace("_", "-"): values for name, values in vars(known).items() if values}
    for name in idle:
        if name in given:
            print(f"warning: --{name} has no effect here", file=sys.stderr)
    return given


def _normal(words: Sequence[str]) -> list[str]:
    normal = []
    for word in words:
        if definition := re.fullmatch(r"-D([^=]+)=(.*)", word):
            if definition[1] in _SYNONYMS:
                normal.append(f"--{_SYNONYMS[definition[1]]}={definition[2]}")
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            normal.append(name.lower().replace("_", "-") + equals + value)
        else:
            normal.append(word)
    return normal


def _switched(words: Sequence[str], switches: set[str]) -> list[str]:
    """A switch takes the next word only where that says true or false: `--json FILE` names a file."""
    followed = zip(words, [*words, ""][1:], strict=True)
    return [
        f"{word}=true" if word.removeprefix("--") in switches and after.lower() not in {"true", "false"} else word
        for word, after in followed
    ]


def _unknown(word: str, flags: Sequence[Flag], command: str) -> ConfigError:
    name = word.lstrip("-").partition("=")[0]
    if name in _GONE:
        return ConfigError(f"--{name} was removed", hint=_GONE[name])
    if not word.startswith("-"):
        return ConfigError(f"unexpected argument {word!r}", hint=f"{command} --help  lists its arguments")
    near = nearest(name, [flag.name for flag in flags])
    return ConfigError(
        f"unknown flag {word!r}", hint=f"did you mean --{near}?" if near else f"{command} --help  lists the flags"
    )
