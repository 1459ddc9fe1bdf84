"""The tables that a statement names, with their options: time travel and hints, in the forms of Flink and Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.table.sql.grammar.incremental_functions import incremental_call
from penstock.table.sql.grammar.tokens import SqlToken, set_once
from penstock.table.values.sql_text import unquoted

_OPTIONS_HINT = re.compile(r"/\*\+\s*options\s*\((.*)\)\s*\*/", re.IGNORECASE | re.DOTALL)
_HINTED_OPTION = r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'"
_HINTED_OPTIONS = re.compile(rf"\s*({_HINTED_OPTION}\s*(,\s*(?=')|$))*")
_PAIR = r"('(?:[^']|'')+'|`(?:[^`]|``)+`)\s*=\s*('(?:[^']|'')*')"
_WITH = re.compile(rf"with\s*\(\s*{_PAIR}(?:\s*,\s*{_PAIR})*\s*\)", re.IGNORECASE)
_BEFORE_TABLE = {"from", "join", "using", "table", "describe", "summarize", "pivot", "unpivot", ","}
_FROM_WORDS = {"from", "join", "using"}
_OTHER_CLAUSES = {"select", "where", "on", "group", "order", "having", "limit", "qualify", "window", "values", "set"}
_POINTS = {"version": "scan.version", "system_version": "scan.version", "timestamp": "", "system_time": ""}
# Words that may follow a table and are not its alias.
_NO_ALIAS = {
    *("where", "join", "left", "right", "full", "inner", "cross", "natural", "on", "using", "group", "order"),
    *("having", "limit", "union", "except", "intersect", "qualify", "window", "offset", "semi", "anti", "asof"),
    *("positional", "lateral", "tablesample", "set", "when", "pivot", "unpivot", "select"),
}


@dataclass(frozen=True, slots=True)
class Mention:
    """A possible table name in a statement.

    It has the name's parts, its tokens from `start` to `end`, and the options of time travel or hints after it. In a
    call, the name is an argument of a table function, and cannot be anything but a table.
    """

    names: tuple[str, ...]
    start: int
    end: int
    options: Mapping[str, str] = field(default_factory=dict)
    is_call: bool = False


def mentions(tokens: Sequence[SqlToken]) -> Iterator[Mention]:
    """Yield the positions where tables may be named.

    A common table expression looks the same, so the caller checks whether the table exists.
    """
    clauses, before, place = _Clauses(), "", 0
    while place < len(tokens):
        token = tokens[place]
        if token.kind in {"blank", "hint"}:
            place += 1
        elif token.name is not None and clauses.names_table_after(before):
            names, end = _chain(tokens, place)
            call = incremental_call(tokens, names[-1], end)
            names, changes, end = call or (names, {}, end)
            options, past = _said_of(tokens, end)
            yield Mention(names, place, past, changes | options, is_call=call is not None)
            before, place = "", past
        else:
            # `a IS DISTINCT FROM b` names columns.
            word = token.text.lower()
            before = "" if (before, word) == ("distinct", "from") else word
            clauses.enter(before)
            place += 1


class _Clauses:
    """The clauses around a place in a statement: for each open bracket, whether a FROM clause is open."""

    def __init__(self) -> None:
        self._in_from = [False]

    def enter(self, word: str) -> None:
        if word == "(":
            # A bracket may enclose a query with clauses of its own, which end with it.
            self._in_from.append(False)
        elif word == ")" and len(self._in_from) > 1:
            self._in_from.pop()
        elif word in _FROM_WORDS:
            self._in_from[-1] = True
        elif word in _OTHER_CLAUSES:
            self._in_from[-1] = False

    def names_table_after(self, word: str) -> bool:
        """Return whether a name after the word is a table's; after a comma it is one in a FROM clause only."""
        return word in _BEFORE_TABLE and (word != "," or self._in_from[-1])


def common_names(tokens: Sequence[SqlToken]) -> set[str]:
    """Return the names, in lower case, of common table expressions: `WITH a AS (...), b (c) AS MATERIALIZED (...)`."""
    solid = [token for token in tokens if token.kind not in {"blank", "hint"}]
    words = [token.text.lower() for token in solid]
    if "with" not in words:
        return set()
    names = set()
    for place, token in enumerate(solid):
        if token.name is None or place == 0 or words[place - 1] not in {"with", "recursive", ","}:
            continue
        rest = words[place + 1 :]
        # A list of column names may follow the name.
        if rest[:1] == ["("] and ")" in rest:
            rest = rest[rest.index(")") + 1 :]
        body = [word for word in rest[:4] if word not in {"not", "materialized"}]
        if body[:2] == ["as", "("]:
            names.add(token.name.lower())
    return names


def _chain(tokens: Sequence[SqlToken], place: int) -> tuple[tuple[str, ...], int]:
    names = [tokens[place].name or ""]
    end = place + 1
    while end + 1 < len(tokens) and tokens[end].text == "." and (following := tokens[end + 1].name) is not None:
        names.append(following)
        end += 2
    return tuple(names), end


def _said_of(tokens: Sequence[SqlToken], end: int) -> tuple[dict[str, str], int]:
    """Return the options after a name, and where they end: hints, `FOR VERSION AS OF 3`, `FOR TAG 'x'`."""
    options: dict[str, str] = {}
    while (place := _solid(tokens, end)) < len(tokens):
        # The longest form has six words: FOR SYSTEM_TIME AS OF TIMESTAMP '...'.
        words = [token.text for token in _solid_tokens(tokens, place, 6)]
        lower = [word.lower() for word in words]
        if tokens[place].kind == "hint":
            options |= table_options(tokens[place].text)
            end = place + 1
        elif len(words) >= 5 and lower[0] == "for" and lower[1] in _POINTS and lower[2:4] == ["as", "of"]:
            typed = lower[4] == "timestamp" and len(words) > 5  # AS OF TIMESTAMP '2026-01-31 12:00:00'
            options |= _point(lower[1], words[5 if typed else 4])
            end = _past(tokens, place, 6 if typed else 5)
        elif len(words) >= 3 and lower[:2] == ["for", "tag"] and words[2].startswith("'"):
            options |= {"scan.tag-name": words[2][1:-1].replace("''", "'")}
            end = _past(tokens, place, 3)
        elif lower[:2] == ["with", "("] and (given := _spark_options(tokens, place)) is not None:
            options |= given[0]
            end = given[1]
        elif lower[:2] == ["changes", "from"]:
            hint = "t /*+ OPTIONS('incremental-between' = '1,3') */: the changes after snapshot 1 up to snapshot 3"
            raise ConfigError("CHANGES FROM is not supported", hint=hint)
        elif len(words) >= 4 and lower[0] in {"version", "timestamp"} and lower[1:3] == ["as", "of"]:
            typed = lower[3] == "timestamp" and len(words) > 4
            options |= _point(lower[0], words[4 if typed else 3])
            end = _past(tokens, place, 5 if typed else 4)
        else:
            break
    return options, end


def _spark_options(tokens: Sequence[SqlToken], place: int) -> tuple[dict[str, str], int] | None:
    """Return the options of Spark's `WITH ('key' = 'value', ...)` and where they end; None for another WITH."""
    found, end = _WITH.match(_bracket(tokens, place)), place
    if found is None:
        return None
    length = found.end()
    while length > 0:
        length -= len(tokens[end].text)
        end += 1
    return set_once(((unquoted(key), unquoted(value)) for key, value in re.findall(_PAIR, found[0])), found[0]), end


def _solid_tokens(tokens: Sequence[SqlToken], place: int, most: int) -> Iterator[SqlToken]:
    """Yield at most this number of tokens from here on, without blanks."""
    for _ in range(most):
        place = _solid(tokens, place)
        if place == len(tokens):
            return
        yield tokens[place]
        place += 1


def _bracket(tokens: Sequence[SqlToken], place: int) -> str:
    """Return the text from here up to the first closing bracket, so that a long statement is not read again."""
    end = place
    while end < len(tokens) and tokens[end].text != ")":
        end += 1
    return "".join(token.text for token in tokens[place : end + 1])


def _solid(tokens: Sequence[SqlToken], place: int) -> int:
    while place < len(tokens) and tokens[place].kind == "blank":
        place += 1
    return place


def _past(tokens: Sequence[SqlToken], place: int, count: int) -> int:
    for _ in range(count):
        place = _solid(tokens, place) + 1
    return place


def hinted_options(hint: str) -> dict[str, str]:
    """Return the options of `/*+ OPTIONS('key' = 'value') */`, empty for other hints. ConfigError if malformed."""
    found = _OPTIONS_HINT.fullmatch(hint)
    if found is None:
        return {}
    if _HINTED_OPTIONS.fullmatch(found[1]) is None:
        raise ConfigError(f"the hint {hint} is not understood", hint="/*+ OPTIONS('key' = 'value', ...) */")
    pairs = re.findall(_HINTED_OPTION, found[1])
    return set_once(((key.replace("''", "'"), value.replace("''", "'")) for key, value in pairs), f"the hint {hint}")


def table_options(hint: str) -> dict[str, str]:
    """Return the options of the hint after the name of a table. ConfigError if it is another hint than OPTIONS."""
    if _OPTIONS_HINT.fullmatch(hint) is None:
        raise ConfigError(
            f"the hint {hint} after a table is not understood", hint="t /*+ OPTIONS('key' = 'value', ...) */"
        )
    return hinted_options(hint)


def _point(clause: str, told: str) -> dict[str, str]:
    text = told[1:-1] if told.startswith("'") else told
    if _POINTS[clause]:
        return {_POINTS[clause]: text}
    if told.startswith("'"):
        return {"scan.timestamp": text}
    if not text.isdecimal():
        raise ConfigError(
            f"{text!r} is not a point in time",
            hint="write it as '2026-01-31 12:00:00'; a lookup join, AS OF a column, "
            "runs as a stream: SET 'execution.runtime-mode' = 'streaming'",
        )
    # Spark reads a number after TIMESTAMP AS OF as seconds.
    return {"scan.timestamp-millis": str(int(text) * 1000)}


def has_alias(tokens: Sequence[SqlToken], end: int) -> bool:
    """Return whether the table that ends before token `end` has an alias."""
    place = _solid(tokens, end)
    if place >= len(tokens) or tokens[place].name is None:
        return False
    return tokens[place].kind == "quoted" or tokens[place].text.lower() not in _NO_ALIAS
