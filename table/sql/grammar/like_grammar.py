"""The clauses of CREATE TABLE ... LIKE, which follow the name of the other table in brackets."""

from __future__ import annotations

from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.table_statements import LIKE_OPTIONS

_LIKE_FEATURES = ("options", "all", "constraints", "partitions", "generated", "metadata", "watermarks")
_ALWAYS_COPIED = frozenset({"all", "constraints", "partitions"})
_OTHERWISE = "write the columns, or (EXCLUDING OPTIONS) to leave the options out"


def read_like_options(cursor: Cursor) -> frozenset[str]:
    """Read the clauses of Flink's LIKE, as `(EXCLUDING OPTIONS)`; return which kinds of options are copied."""
    copied = set(LIKE_OPTIONS)
    if cursor.skip("("):
        while not cursor.skip(")"):
            action = cursor.skip_any("excluding", "including", "overwriting")
            feature = cursor.skip_any(*_LIKE_FEATURES)
            if action is None or feature is None:
                cursor.fail("EXCLUDING OPTIONS or INCLUDING OPTIONS is expected")
            if action == "excluding" and feature in _ALWAYS_COPIED:
                cursor.fail(
                    f"LIKE copies keys and partitions: EXCLUDING {feature.upper()} is not supported", hint=_OTHERWISE
                )
            named = LIKE_OPTIONS if feature == "all" else {feature} & LIKE_OPTIONS
            copied = copied - named if action == "excluding" else copied | named
    return frozenset(copied)
