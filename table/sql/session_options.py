"""SET and RESET: the options of a session, and which of Flink's and Spark's have an effect here."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.options.checks import check_given
from penstock.table.sql.grammar.statements import SessionOption
from penstock.table.sql.queries.context import SqlContext, done
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
# `SET spark.paimon.KEY = VALUE`: options of all reads of a session, as in Paimon's Spark SQL.
_READ_OPTION = "spark.paimon."
READS = ("scan.", "incremental-", "consumer", "streaming-read-", "read.", "source.split.")


def set_option(context: SqlContext, option: SessionOption) -> pa.Table:
    """Set an option of the session, reset one option or all options, or list them.

    ConfigError for an unknown option.
    """
    if option.key is None and option.value is not None:
        found = context.options | {f"{_READ_OPTION}{key}": value for key, value in context.read_options.items()}
        return pa.table(
            {name: pa.array(column, pa.string()) for name, column in (("key", found), ("value", found.values()))}
        )
    if option.key is None:
        context.options.clear()
        context.read_options.clear()
        return done()
    if option.key.startswith(_READ_OPTION):
        _set_read_option(context.read_options, option.key, option.value)
        return done()
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


def _set_read_option(options: dict[str, str], written: str, value: str | None) -> None:
    key = written.removeprefix(_READ_OPTION)
    if value is None:
        options.pop(key, None)
        return
    if not key.startswith(READS):
        raise ConfigError(
            f"{written!r} is not an option of reads",
            options=", ".join(f"{_READ_OPTION}{option}..." for option in READS),
            hint="write others for one statement: t /*+ OPTIONS('key' = 'value') */; or ALTER TABLE t SET",
        )
    check_given({key: value})
    options[key] = value
