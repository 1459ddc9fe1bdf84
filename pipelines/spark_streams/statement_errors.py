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
# The last line of a traceback of Python, in which an error of a table is.
_CAUSE = re.compile(r"^(?:\w+\.)+(\w+): (.+)$", re.MULTILINE)


def statement_error(part: ScriptPart, reason: PySparkException) -> PenstockError:
    """Return the error for a statement that Spark refused, with its place in the script."""
    text = _BELOW.split(str(reason), maxsplit=1)[0].strip()
    causes = _CAUSE.findall(str(reason))
    message = causes[-1][1] if causes else " ".join(text.split())
    error = ConfigError(f"Spark refused the statement: {message}")
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
