"""Errors of Spark for a statement of a script, with the place in the script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, PenstockError
from penstock.table.sql.grammar.scripts import ScriptPart

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_PLACE = re.compile(r"line (\d+),? pos (\d+)")
# What Spark adds below its message.
_BELOW = re.compile(r"\n\n(?:JVM stacktrace|== SQL)|;\n'")
# The error in the last line of a Python traceback, or in the text that Spark shows for an error of a table.
_CAUSE = re.compile(r"(?:^(?:\w+\.)+|: penstock\.(?:\w+\.)*)(\w+): (.+)$", re.MULTILINE)
_ANY_CASE = re.IGNORECASE | re.DOTALL
# Statements that run without Spark, and what they are in Spark.
_INSTEAD = (
    (re.compile(r"analyze\s", _ANY_CASE), "CALL sys.analyze('db.t')"),
    (re.compile(r"create\s+(?:temporary\s+)?table\b.*\bwith\s*\(", _ANY_CASE), "TBLPROPERTIES ('key' = 'value')"),
    (re.compile(r"alter\s+table\s+\S+\s+drop\s+tag\b", _ANY_CASE), "ALTER TABLE t DELETE TAG 'x'"),
    (
        re.compile(r"alter\s+table\s+\S+\s+(?:modify|set\s*\(|reset)", _ANY_CASE),
        "ALTER COLUMN, SET or UNSET TBLPROPERTIES",
    ),
    (
        re.compile(r"create\s+(?:or\s+replace\s+)?view\b", _ANY_CASE),
        "CREATE TEMPORARY VIEW, which lasts as long as the script",
    ),
    (
        re.compile(r"(?:alter|drop|show)\s+views?\b", _ANY_CASE),
        "the name of a temporary view, without a database",
    ),
    (re.compile(r"(?:create|use|drop)\s+catalog\b", _ANY_CASE), "the warehouse of the command is the catalog lake"),
    (re.compile(r"(?:re)?set\s+'", _ANY_CASE), "SET key = value, without quotes"),
    (re.compile(r".*/\*\+", _ANY_CASE), "t /*+ OPTIONS('key' = 'value') */ is the hint after a table"),
)
_OTHER_DIALECT = "; without --engine spark, statements of Flink run too"


def statement_error(part: ScriptPart, reason: PySparkException) -> PenstockError:
    """Return the error for a statement that Spark refused, with its place in the script."""
    text = _BELOW.split(str(reason), maxsplit=1)[0].strip()
    causes = _CAUSE.findall(str(reason))
    message = causes[-1][1] if causes else " ".join(text.split())
    error = ConfigError(f"Spark refused the statement: {message}", hint=_way_out(part.text, message))
    found = _PLACE.search(str(reason))
    if found is not None:
        line, position = int(found[1]), int(found[2])
        # Spark counts lines from 1 and positions from 0, both in the statement.
        error.facts |= {
            "line": part.place.line + line - 1,
            "column": position + (part.place.column if line == 1 else 1),
        }
    part.locate(error)
    return error


def _way_out(statement: str, message: str) -> str | None:
    """Return the statement to write in place of one that Spark does not know; None if the message names it."""
    if "MISSING_CATALOG_ABILITY.VIEWS" in message:
        return next((hint for pattern, hint in _INSTEAD if pattern.match(statement.strip())), None)
    if not any(code in message for code in ("PARSE_SYNTAX_ERROR", "NOT_SUPPORTED_COMMAND", "INVALID_SET")):
        return None
    found = (hint for pattern, hint in _INSTEAD if pattern.match(statement.strip()))
    return next((f"{hint}{_OTHER_DIALECT}" for hint in found), None)
