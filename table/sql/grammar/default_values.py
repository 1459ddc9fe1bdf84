"""The word DEFAULT as a value: `VALUES (1, DEFAULT)`, `SET c = DEFAULT`."""

from __future__ import annotations

from penstock.table.sql.grammar.tokens import tokens_of

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
# A null, which writers replace by the default of its column. As long as the word, so that places in the text stay.
_NULL = "NULL   "


def assigned_value(text: str) -> str:
    """Return the text of a value, or the text of a null if it is DEFAULT."""
    return _NULL.strip() if text.lower() == "default" else text


def with_default_values(query: str) -> str:
    """Return the text of VALUES with nulls instead of the values that are DEFAULT."""
    tokens = tokens_of(query)
    solid = [at for at, token in enumerate(tokens) if token.kind not in {"blank", "hint"}]
    texts = [token.text for token in tokens]
    words = [texts[at].lower() for at in solid]
    depth = 0
    for place, word in enumerate(words):
        depth += (word in _OPENING) - (word in _CLOSING)
        whole = words[place - 1] in {"(", ","} and words[place + 1 : place + 2] in ([")"], [","])
        # Deeper brackets belong to expressions, which have no default.
        if word == "default" and depth == 1 and whole:
            texts[solid[place]] = _NULL
    return "".join(texts)
