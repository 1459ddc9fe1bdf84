"""Functions of JSON on VARIANT columns: DuckDB reads such a column as a struct of bytes, and returns NULL for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from penstock.table.sql.grammar.tokens import SqlToken
from penstock.table.sql.queries.engine_errors import no_members, not_read
from penstock.table.values.arrow_types import VARIANT_STRUCT
from penstock.table.values.sql_text import literal, quoted

# The operator ->> too, which DuckDB looks up by its name. Of `->` and json_extract it knows no other definition.
_OF_JSON = {
    "->>": "json_extract_string",
    **{name: name for name in ("json_extract_string", "json_extract_path_text", "json_value", "json_exists")},
}
_EXTRACTS = (
    "json_extract",
    "json_extract_path",
    "to_json",
    "json",
    "json_quote",
    "row_to_json",
    "json_keys",
    "json_type",
)
_TYPE = 'STRUCT("value" BLOB, metadata BLOB)'
# Words that may follow a column, or stand before a bracket, and are not the name of one.
_NO_NAMES = frozenset(
    re.findall(
        r"\w+",
        """and anti asc asof between by collate cross desc else end except fetch filter for from full glob group having
        ilike in inner intersect into is isnull join left like limit natural not notnull nulls offset on or order over
        positional qualify returning right semi similar tablesample then union using when where window""",
    )
)


def has_variant(type_: pa.DataType) -> bool:
    """Return whether a column is a VARIANT, or contains one."""
    if type_.equals(VARIANT_STRUCT):
        return True
    return any(has_variant(type_.field(at).type) for at in range(type_.num_fields))


def refuse_json_of_variants(connection: Any) -> None:
    """Let the functions of JSON end with an error when they are called with a VARIANT."""
    for name, function in _OF_JSON.items():
        refused = f"CASE WHEN typeof(v) = {literal(_TYPE)} THEN error({literal(no_members(name))})"
        text = f"{refused} ELSE system.main.{function}(v, p) END"
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {quoted(name)}(v, p) AS {text}")


def refuse_members(tokens: Sequence[SqlToken], variants: Collection[str]) -> None:
    """Raise ConfigError if a statement has `v -> 'key'` or json_extract(v, ...) of a VARIANT column."""
    solid = [token for token in tokens if token.kind != "blank"]
    texts = [token.text.lower() for token in solid]
    variants = _renamed(solid, variants)
    for at, token in enumerate(solid):
        if (token.name or "").lower() not in variants:
            continue
        start = at
        while start > 1 and texts[start - 1] == ".":
            start -= 2
        function = texts[start - 2] if start > 1 and texts[start - 1] == "(" else ""
        casts = [*texts[at + 1 : at + 4]]
        if casts[:3] == [":", ":", "json"] or casts[:2] == ["::", "json"] or casts[:2] == ["as", "json"]:
            raise not_read("JSON")
        arrow = texts[at + 1 : at + 3] == ["-", ">"] and texts[at + 3 : at + 4] != [">"]
        if arrow or function in _EXTRACTS:
            raise not_read("->" if arrow else function)


def variant_columns(connection: Any, view: str) -> set[str]:
    """Return the names of the columns of a view, given as SQL, that have a VARIANT, in lower case."""
    described = connection.execute(f"DESCRIBE {view}").fetchall()
    return {str(row[0]).lower() for row in described if _TYPE in str(row[1])}


def _renamed(tokens: Sequence[SqlToken], variants: Collection[str]) -> set[str]:
    """Return the names that a query may give to VARIANT columns, and their own.

    `v AS w` gives one. A list of columns, as in `(SELECT v ...) AS s(w)`, may give any of its names.
    """
    names = [(token.name or "").lower() for token in tokens]
    texts = [token.text.lower() for token in tokens]
    found, before = {name.lower() for name in variants}, 0
    found.update(name for at, text in enumerate(texts) if text == "(" for name in _listed(texts, names, at))
    given = ["" if text in _NO_NAMES else name for text, name in zip(texts, names, strict=True)]
    while len(found) > before:
        before = len(found)
        pairs = zip(names, [*given[1:], ""], [*given[2:], "", ""], strict=False)
        found |= {(after if between == "as" else between) for name, between, after in pairs if name in found}
        found.discard("")
    return found


def _listed(texts: Sequence[str], names: Sequence[str], at: int) -> Sequence[str]:
    """Return the names in a bracket that lists the columns of a query: `) AS s(a, b)`, and `WITH s(a, b) AS (`."""
    end = next((place for place in range(at, len(texts)) if texts[place] == ")"), len(texts))
    inside = range(at + 1, end)
    is_list = all(names[place] if place in inside[::2] else texts[place] == "," for place in inside)
    is_named = at > 0 and names[at - 1] and texts[at - 1] not in _NO_NAMES
    of_query = at > 1 and texts[at - 2] in {")", "as"}
    return (
        names[at + 1 : end : 2]
        if is_list and is_named and (of_query or texts[end + 1 : end + 3] == ["as", "("])
        else ()
    )
