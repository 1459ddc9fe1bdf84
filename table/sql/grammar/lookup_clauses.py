"""The clauses of lookup joins in a query: `FOR SYSTEM_TIME AS OF o.proc_time`, and the hint LOOKUP.

DuckDB's parser knows neither. The clauses are taken out of the text, and the JOIN itself remains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.lookup.flink_hints import HINT_VALUES, HINTS, report_hints
from penstock.table.lookup.matches import LookupRetry
from penstock.table.options.kinds import parse_duration, parse_integer
from penstock.table.sql.grammar.mentions import Mention
from penstock.table.sql.grammar.tokens import SqlToken, set_once

_CLAUSE = ["for", "system_time", "as", "of"]
_HINTS = re.compile(r"(\w+)\s*\(((?:'[^']*'|[^'()])*)\)")
_IS_LOOKUP = re.compile(r"\blookup\b", re.IGNORECASE)
_PAIRS = re.compile(r"\s*('[^']*'\s*=\s*'[^']*'\s*(,\s*(?=')|$))+")
_FORM = (
    "/*+ LOOKUP('table' = 'd', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', "
    "'fixed-delay' = '10s', 'max-attempts' = '30') */"
)
# The options that ask for a retry, and the value that each must have, if there is only one.
_RETRY = {"retry-predicate": "lookup_miss", "retry-strategy": "fixed_delay", "fixed-delay": None, "max-attempts": None}


@dataclass(frozen=True, slots=True)
class LookupClause:
    """A FOR SYSTEM_TIME AS OF clause: its tokens from `start` to `end`, and the column, which `PROCTIME()` lacks."""

    start: int
    end: int
    moment: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookupHint:
    """A hint LOOKUP at token `at`."""

    at: int
    options: Mapping[str, str]

    @property
    def table(self) -> str:
        """Return the alias or name of the table that the hint is for."""
        return self.options.get("table", "")

    def target(self, tokens: Sequence[SqlToken], names: Mapping[int, set[str]]) -> int:
        """Return the table that the hint is about, among the tables in the SELECT that the hint begins.

        `names` has the names of a table by the token where it is mentioned. ConfigError if the hint is about none of
        them.
        """
        depth = 0
        for at in range(self.at + 1, len(tokens)):
            text = tokens[at].text.lower()
            depth += (text == "(") - (text == ")")
            if depth < 0 or (depth == 0 and text == "select"):
                break
            if depth == 0 and self.table.lower() in names.get(at, ()):
                return at
        raise ConfigError(
            f"the hint LOOKUP names the table {self.table!r}, which the SELECT after it does not look up",
            hint="SELECT /*+ LOOKUP('table' = 'd', ...) */ ... JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON ...",
        )

    @property
    def retry(self) -> LookupRetry | None:
        """Return how often missing keys are asked for again. ConfigError for options that are not supported."""
        self._check_others()
        given = {key: self.options[key] for key in _RETRY if key in self.options}
        if not given:
            return None
        missing = [key for key in _RETRY if key not in given]
        if missing:
            raise ConfigError(f"the hint LOOKUP lacks {', '.join(missing)} for a retry", hint=_FORM)
        for key, value in given.items():
            if _RETRY[key] not in (None, value.lower()):
                raise ConfigError(f"{key} {value!r} of the hint LOOKUP is not supported", hint=f"use {_RETRY[key]}")
        attempts = parse_integer(given["max-attempts"])
        if attempts < 1:
            raise ConfigError(f"max-attempts {attempts} of the hint LOOKUP is not a positive number", hint=_FORM)
        return LookupRetry(parse_duration(given["fixed-delay"]) / 1000, attempts)

    def _check_others(self) -> None:
        """Log the options that change nothing. ConfigError for any other option, except options of a retry."""
        others = {key: value.lower() for key, value in self.options.items() if key != "table" and key not in _RETRY}
        for key, value in others.items():
            allowed = HINT_VALUES.get(key, (value,) if key in HINTS else ())
            if value not in allowed:
                hint = (
                    f"use {' or '.join(allowed)}" if allowed else f"leave the option out; others are {', '.join(HINTS)}"
                )
                raise ConfigError(f"the option {key!r} = {value!r} of the hint LOOKUP is not supported", hint=hint)
        report_hints(self.table, others)


def lookup_clauses(tokens: Sequence[SqlToken]) -> list[LookupClause]:
    """Return the clauses `FOR SYSTEM_TIME AS OF` with a column; with a time, the clause is time travel."""
    solid = [at for at, token in enumerate(tokens) if token.kind != "blank"]
    words = [tokens[at].text.lower() for at in solid]
    found = []
    for number in range(len(solid) - 4):
        name = tokens[solid[number + 4]].name
        if words[number : number + 4] != _CLAUSE or name is None or words[number + 4] == "timestamp":
            continue
        last, moment = number + 4, [name]
        if name.lower() == "proctime" and words[last + 1 : last + 3] == ["(", ")"]:
            last, moment = last + 2, []
        while words[last + 1 : last + 2] == ["."] and last + 2 < len(solid):
            last += 2
            moment.append(tokens[solid[last]].name or "")
        found.append(LookupClause(solid[number], solid[last] + 1, tuple(moment)))
    return found


def without(tokens: Sequence[SqlToken], clauses: Sequence[LookupClause]) -> list[SqlToken]:
    """Return the tokens with blanks of the same length in place of the clauses."""
    kept = list(tokens)
    for clause in clauses:
        for at in range(clause.start, clause.end):
            kept[at] = SqlToken("blank", " " * len(tokens[at].text))
    return kept


def clause_of(clauses: Sequence[LookupClause], tokens: Sequence[SqlToken], mention: Mention) -> LookupClause | None:
    """Return the clause that directly follows a table; `tokens` have blanks in place of the clauses."""
    for clause in clauses:
        between = tokens[mention.end : clause.start]
        if clause.start >= mention.end and all(token.kind == "blank" for token in between):
            return clause
    return None


def refuse_lookup_hints(tokens: Sequence[SqlToken]) -> None:
    """Raise ConfigError if a query that is no stream has a hint LOOKUP: it has an effect on lookup joins only."""
    for hint in lookup_hints(tokens):
        raise ConfigError(
            f"the hint LOOKUP of the table {hint.table!r} has no effect: the query is not a stream",
            hint="leave it out; or a lookup join as a stream: SET 'execution.runtime-mode' = 'streaming', "
            "SELECT ... JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON ...",
        )


def lookup_hints(tokens: Sequence[SqlToken]) -> Iterator[LookupHint]:
    """Yield the hints LOOKUP; a comment may contain several. ConfigError if one is malformed."""
    for at, token in enumerate(tokens):
        if token.kind != "hint":
            continue
        found = [arguments for name, arguments in _HINTS.findall(token.text) if name.lower() == "lookup"]
        if not found and _IS_LOOKUP.search(re.sub(r"'[^']*'", "", token.text)):
            raise ConfigError(f"the hint {token.text} is not understood", hint=_FORM)
        for arguments in found:
            written = re.findall(r"'([^']*)'\s*=\s*'([^']*)'", arguments)
            pairs = set_once(((key.lower(), value) for key, value in written), f"the hint {token.text}")
            if _PAIRS.fullmatch(arguments) is None or not pairs.get("table"):
                raise ConfigError(f"the hint {token.text} is not understood", hint=_FORM)
            yield LookupHint(at, pairs)
