"""SET and RESET: the options of a session, and which of Flink's and Spark's have an effect here."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.sql.grammar.session_statements import SessionOption
from penstock.table.sql.queries.context import SqlContext, done
from penstock.table.sql.queries.session_reads import PREFIX, check_read_option, is_any, read_name, table_and_key
from penstock.table.sql.streams.job_progress import PIPELINE_NAME
from penstock.table.sql.streams.script_streams import MODE
from penstock.table.sql.streams.stream_jobs import INTERVAL, check_job_option

STREAMING = f"SET '{MODE}' = 'streaming'"
# Session options that SQL acts on, in small letters, with the values that are possible.
_OPTIONS = {
    "spark.sql.sources.partitionoverwritemode": ("static", "dynamic"),
    MODE: ("batch", "streaming"),
}
# Options with any value, which are kept as they are written.
_TEXTS = (PIPELINE_NAME, INTERVAL)
# Options that scripts for Flink and Spark set and that mean nothing here. They are accepted so that such scripts
# run.
_OTHER_ENGINES = ("execution.", "sql-client.", "pipeline.", "parallelism.", "table.", "state.", "rest.", "spark.sql.")
_NEARLY_EQUAL = 0.92
_OTHERS = "write others for one statement: t /*+ OPTIONS('key' = 'value') */; or ALTER TABLE t SET"


def set_option(context: SqlContext, option: SessionOption) -> pa.Table:
    """Set an option of the session, reset one option or all options, or list them.

    ConfigError for an unknown option.
    """
    if option.key is None and option.value is not None:
        found = context.options | {f"{PREFIX}{key}": value for key, value in context.read_options.items()}
        return pa.table(
            {name: pa.array(column, pa.string()) for name, column in (("key", found), ("value", found.values()))}
        )
    if option.key is None:
        context.options.clear()
        context.read_options.clear()
        return done()
    if (name := read_name(option.key)) is not None:
        return _set_read_option(context, name, option.value)
    key = option.key.lower()
    possible = _OPTIONS.get(key)
    if key not in _TEXTS and possible is None:
        if key.startswith(_OTHER_ENGINES):
            # Another name of Flink is accepted; one that differs by a letter is a mistake.
            if near := did_you_mean(key, (*_OPTIONS, *_TEXTS), cutoff=_NEARLY_EQUAL):
                raise ConfigError(f"the session option {option.key!r} is not known", hint=near)
            return pa.table({"result": [f"{option.key} has no effect here"]})
        hint = "options of one read or write: t /*+ OPTIONS('key' = 'value') */"
        raise ConfigError(f"the session option {option.key!r} is not supported", hint=hint)
    if option.value is None:
        context.options.pop(key, None)
        return done()
    if possible is None:
        check_job_option(key, option.value)
        context.options[key] = option.value
        return done()
    if option.value.lower() not in possible:
        raise ConfigError(
            f"{option.key} = {option.value!r} is not supported here", hint=f"it can be {' or '.join(possible)}"
        )
    context.options[key] = option.value.lower()
    return done()


def _set_read_option(context: SqlContext, name: str, value: str | None) -> pa.Table:
    if value is None:
        context.read_options.pop(name, None)
        return done()
    check_read_option(name, value, _OTHERS)
    table, key = table_and_key(name)
    if table is not None and not is_any(table[0]) and table[0] not in context.opened:
        raise ConfigError(
            f"there is no catalog {table[0]!r}, so that the option would have no effect",
            catalogs=", ".join(context.opened) or "no catalog is open",
            hint=f"SET {PREFIX}{'.'.join(['*', *table[1:], key])} = {value}  is for each catalog",
        )
    context.read_options[name] = value
    if table is None or (missing := _missing_table(context, table)) is None:
        return done()
    # A script may create the table later.
    return pa.table({"result": [f"{PREFIX}{name} has no effect as long as there is no table {missing}"]})


def _missing_table(context: SqlContext, names: Sequence[str]) -> str | None:
    """Return the table that an option names by its catalog, database and name, if it does not exist."""
    known = context.opened.get(names[0]) or (context.current if context.has_catalog else None)
    if known is None or any(map(is_any, names[1:])) or known.catalog.table_exists(".".join(names[1:])):
        return None
    return ".".join(names[1:])
