"""Hints for functions of Flink and Spark that DuckDB does not have: an expression with the same result."""

from __future__ import annotations

import re

_UNKNOWN = re.compile(r"Function with name \"?(\w+)\"? does not exist")
_WRONG_ARGUMENTS = re.compile(r"No function matches the given name and argument types '(\w+)\(")
_MATCHES = "regexp_matches(a, 'pattern')"
# For each function an expression of DuckDB. In these, a and b are texts, j is a text of JSON, t, begins and ends are
# timestamps, n is a number and l a list.
INSTEAD = {
    "date_format": "strftime(t, '%Y-%m-%d %H:%M:%S')",
    "from_unixtime": "strftime(to_timestamp(n), '%Y-%m-%d %H:%M:%S')",
    "unix_timestamp": "epoch(t)",
    "to_date": "CAST(a AS DATE)",
    "to_timestamp": "CAST(a AS TIMESTAMP)",
    "datediff": "date_diff('day', begins, ends)",
    "timestampdiff": "date_diff('day', begins, ends)",
    "timestampadd": "t + INTERVAL 1 DAY",
    "date_sub": "t - INTERVAL 1 DAY",
    "add_months": "t + INTERVAL 1 MONTH",
    "localtimestamp": "localtimestamp",
    "current_timestamp": "current_timestamp",
    "nvl": "coalesce(a, b)",
    "get_json_object": "json_extract_string(j, '$.key')",
    "collect_list": "list(a)",
    "collect": "list(a)",
    "collect_set": "list(DISTINCT a)",
    "percentile": "quantile_cont(n, 0.5)",
    "size": "len(l)",
    "explode": "unnest(l)",
    "locate": "instr(a, 'part')",
    "split_index": "split_part(a, ',', 1)",
    "substring_index": "split_part(a, ',', 1)",
    "named_struct": "{'key': a}",
    "regexp": _MATCHES,
    "rlike": _MATCHES,
    "sha2": "sha256(a)",
    "trunc": "date_trunc('month', t)",
    "startswith": "starts_with(a, 'part')",
    "endswith": "ends_with(a, 'part')",
    "array_join": "array_to_string(l, ',')",
    "element_at": "l[1]",
    "sequence": "range(1, n)",
}
# Forms of Flink and Spark that DuckDB refuses at a word after them, by their text.
FORMS = {
    r"\bMAP\s*\[|\bMAP\s*\(\s*''\s*,": "MAP {'key': a}",
    r"\bARRAY\s*\(\s*(?!SELECT\b)": "[a, b]",
    # Not the type, whose members have a name and a type: STRUCT(a INT).
    r"\bSTRUCT\s*\(\s*(?![\w`\"]+\s+(?!AS\b)\w)": "{'key': a}",
    r"\b(?:RLIKE|REGEXP)\b": _MATCHES,
    r"\bDIV\b": "n // 2",
    r"<=>": "a IS NOT DISTINCT FROM b",
    r"\bLATERAL\s+VIEW\b": "SELECT a, unnest(l) FROM t",
    r"\bTIMESTAMP_NTZ\b": "TIMESTAMP '2026-01-31 12:00:00'",
    r"\bTIMESTAMP_LTZ\s*''": "TIMESTAMPTZ '2026-01-31 12:00:00+00'",
}
# Columns that Paimon adds to a query that names them.
_HIDDEN_COLUMN = re.compile(r"Referenced column \"(__paimon_\w+|_row_id|_sequence_number)\" not found", re.IGNORECASE)
_TEXT = re.compile("'(?:[^']|'')*'")
_REFUSED_FORM = re.compile("^Parser Error|No function matches|Type with name")
_TEXT_TIME = re.compile(r"\bto_timestamp\s*\(", re.IGNORECASE)
_NO_NUMBER = "to DOUBLE"
_BUCKETS = "date_trunc('hour', t), or time_bucket(INTERVAL 10 MINUTE, t), in GROUP BY"
_WINDOWS = re.compile(r"\b(?:TUMBLE|HOP|CUMULATE|SESSION)\s*\(\s*TABLE\b", re.IGNORECASE)
_OF_FILES = "t$files  lists files with their partitions and buckets; --engine spark has the metadata columns of rows"
_ROW_IDS = "t$row_tracking  has the ids of rows, if the table has row-tracking.enabled"
_ELSE = "functions are those of DuckDB; --engine spark has those of Spark"


def function_hint(message: str, text: str) -> str | None:
    """Return what to write instead if the message of DuckDB is about a function of the statement, else None."""
    if _WINDOWS.search(text):
        return f"windows of Flink are not supported:  {_BUCKETS}"
    if (form := _form(message, _TEXT.sub("''", text))) is not None:
        return f"write  {form}"
    if (hidden := _HIDDEN_COLUMN.search(message)) is not None:
        return _OF_FILES if hidden[1].lower().startswith("__paimon") else _ROW_IDS
    unknown = _UNKNOWN.search(message)
    named = unknown or _WRONG_ARGUMENTS.search(message)
    if named is None:
        return None
    instead = INSTEAD.get(named[1].lower())
    return f"write  {instead}" if instead else _ELSE if unknown else None


def _form(message: str, text: str) -> str | None:
    """Return the form of DuckDB for one of the statement that it refuses; `text` is without the texts in quotes."""
    if _NO_NUMBER in message and _TEXT_TIME.search(text):
        return INSTEAD["to_timestamp"]
    if not _REFUSED_FORM.search(message):
        return None
    return next((form for pattern, form in FORMS.items() if re.search(pattern, text, re.IGNORECASE)), None)
