"""Paimon's table functions of Spark that read changes: `paimon_incremental_query('db.t', '12', '20')`."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.table.options.scans import INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_TIMESTAMP, INCREMENTAL_TO_AUTO_TAG
from penstock.table.sql.grammar.tokens import SqlToken, tokens_of

# The option of a read that each function stands for, and its arguments.
_FUNCTIONS = {
    "paimon_incremental_query": (INCREMENTAL_BETWEEN.key, ("TABLE", "START", "END")),
    "paimon_incremental_between_timestamp": (INCREMENTAL_BETWEEN_TIMESTAMP.key, ("TABLE", "START", "END")),
    "paimon_incremental_to_auto_tag": (INCREMENTAL_TO_AUTO_TAG.key, ("TABLE", "TAG")),
}


def incremental_call(
    tokens: Sequence[SqlToken], name: str, place: int
) -> tuple[tuple[str, ...], dict[str, str], int] | None:
    """Return the table, the read option and the end of a call; its function name ends at `place`.

    None if this is not a call of one of the functions. ConfigError if its arguments do not fit the function.
    """
    if name.lower() not in _FUNCTIONS:
        return None
    option, parameters = _FUNCTIONS[name.lower()]
    inside = [at for at in range(place, _closed(tokens, place)) if tokens[at].kind not in {"blank", "hint"}]
    texts = [tokens[at].text for at in inside]
    if texts[:1] != ["("]:
        return None
    values = [_value(tokens[at]) for at in inside[1:-1:2]]
    commas = texts[2:-1:2]
    names = _names(values[0]) if values and values[0] is not None else ()
    if texts[-1] != ")" or len(values) != len(parameters) or not all(values) or not names or set(commas) - {","}:
        usage = ", ".join(f"'{parameter}'" for parameter in parameters)
        raise ConfigError(
            f"the arguments of {name} are not understood",
            near="".join(token.text for token in tokens[place : inside[-1] + 1]),
            hint=f"{name.lower()}({usage})",
        )
    ends = ",".join(value or "" for value in values[1:])
    return names, {option: ends}, inside[-1] + 1


def _closed(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after the first closing bracket, or the end of the statement."""
    return next((at + 1 for at in range(place, len(tokens)) if tokens[at].text == ")"), len(tokens))


def _value(token: SqlToken) -> str | None:
    if token.kind == "string":
        return token.text[1:-1].replace("''", "'")
    return token.text if token.kind == "number" else None


def _names(table: str) -> tuple[str, ...]:
    """Return the parts of a table's name in a text, where backquotes may enclose them; empty if it is not a name."""
    tokens = tokens_of(table)
    names = tuple(token.name or "" for token in tokens[::2])
    return names if all(names) and all(token.text == "." for token in tokens[1::2]) else ()
