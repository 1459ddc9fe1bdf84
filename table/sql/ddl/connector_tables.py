"""Temporary tables of Flink's connectors that a query can read here: files, and rows that are made up (datagen).

They become temporary views of DuckDB, for the rest of the script. Tables of other connectors are refused with what to
write instead.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.schema.flink_columns import flink_columns, without_flink_columns
from penstock.table.sql.grammar.session_statements import View
from penstock.table.sql.grammar.table_statements import CreateTable
from penstock.table.sql.queries.context import SqlContext, done
from penstock.table.values.sql_text import literal, quoted
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, RowType

_TYPES = {
    **{root: root for root in ("BOOLEAN", "TINYINT", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME")},
    **dict.fromkeys(("CHAR", "VARCHAR"), "VARCHAR"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "BLOB"),
    "INT": "INTEGER",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMPTZ",
}
_READERS = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}
_CSV = {
    "csv.field-delimiter": "delim",
    "csv.quote-character": "quote",
    "csv.escape-character": "escape",
    "csv.null-literal": "nullstr",
}
_FILE = "file of the row"  # the column with the path of the file
_MOST = {"TINYINT": 127, "SMALLINT": 32767}  # of random numbers, which are not negative unless `min` is set
_OF_FIELD = ("kind", "min", "max", "length", "start", "end")
_PROCTIME = re.compile(r"(?P<text>'(?:[^']|'')*')|\bPROCTIME\s*\(\s*\)", re.IGNORECASE)
_SEQUENCE, _BOUNDS = ("start", "end"), ("min", "max")
_RANDOM = {"VARCHAR": ("length",), "BOOLEAN": (), "TIMESTAMP": (), "TIMESTAMPTZ": ()}  # others have bounds
_LENGTH = 100  # of random texts, as in Flink


def create_connector_table(context: SqlContext, statement: CreateTable) -> pa.Table:
    """Run CREATE TEMPORARY TABLE of a connector. Its computed columns are computed; its watermark has no effect."""
    if statement.keys or statement.partitions:
        clause = "PRIMARY KEY" if statement.keys else "PARTITIONED BY"
        raise ConfigError(f"{clause} has no effect for this connector", hint="leave it out")
    names = [column.name for column in statement.columns]
    options = without_flink_columns(statement.options, names)
    rows = (_files if statement.connector == "filesystem" else _generated)(statement.columns, options)
    selected = [quoted(name) for name in names]
    for column in flink_columns(statement.options, names):
        expression = _PROCTIME.sub(lambda found: found["text"] or "now()", column.expression or "")
        selected.insert(column.place, f"({expression}) AS {quoted(column.name)}")
    (name,) = statement.name
    if context.session.place((name,)) is not None:
        raise ConfigError(
            f"the temporary table {name} would hide a table of the catalog, and only from queries",
            hint="choose another name",
        )
    text = f"CREATE TEMPORARY VIEW {quoted(name)} AS SELECT {', '.join(selected)} FROM ({rows}) AS r"
    context.session.run_view(View(name, text, unless_exists=statement.if_not_exists))
    return done()


def _files(columns: Sequence[Field], options: dict[str, str]) -> str:
    place, form = options.pop("path", None), options.pop("format", None)
    if place is None or form not in _READERS:
        raise ConfigError(
            "a table of files needs a path and a format",
            hint=f"WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = '...'): {', '.join(_READERS)}",
        )
    place, chosen = place.removeprefix("file://"), ""
    if Path(place).is_dir():
        folder = f"{place.rstrip('/')}/"
        place = f"{glob.escape(folder)}**/[!._]*"
        # Files that are not finished are in folders or files of such names: _temporary, .staging, .part-0.inprogress.
        chosen = f" WHERE NOT regexp_matches(substr({quoted(_FILE)}, {len(folder) + 1}), '(^|/)[._]')"
    # Nothing between two delimiters is an empty text. DuckDB loses its option for that if a query leaves columns out.
    empty_texts = form == "csv" and "csv.null-literal" not in options
    types = ", ".join(f"{literal(column.name)}: {literal(_type(column.type))}" for column in columns)
    # Without partitions that DuckDB would guess from the names of folders: a column has the values in the file.
    given = [literal(place), "hive_partitioning = false", f"filename = {literal(_FILE)}"]
    if form != "parquet":
        given.append(f"columns = {{{types}}}")
    if form == "json":
        given.append("format = 'newline_delimited'")
    if form == "csv":
        given += ["header = false", "auto_detect = false"]
        given += [f"{_CSV[key]} = {literal(options.pop(key))}" for key in _CSV if key in options]
    _refuse_rest(options, _CSV if form == "csv" else ())
    casts = ", ".join(_cast(column, empty_texts=empty_texts) for column in columns)
    return f"SELECT {casts} FROM {_READERS[form]}({', '.join(given)}){chosen}"


def _cast(column: Field, *, empty_texts: bool) -> str:
    name, type_ = quoted(column.name), _type(column.type)
    value = f"coalesce({name}, '')" if empty_texts and type_ == "VARCHAR" else name
    return f"CAST({value} AS {type_}) AS {name}"


def _generated(columns: Sequence[Field], options: dict[str, str]) -> str:
    options.pop("rows-per-second", None)  # a query takes all rows as fast as it can
    number = options.pop("number-of-rows", None)
    if number is not None:
        _check_number("number-of-rows", number, whole=True)
    known = {f"fields.{column.name}.{key}": (column, key) for column in columns for key in _OF_FIELD}
    _refuse_rest([key for key in options if key not in known], ["number-of-rows", *known])
    given: dict[str, dict[str, str]] = {column.name: {} for column in columns}
    for key, text in options.items():
        column, what = known[key]
        if what != "kind":
            _check_number(key, text, whole=what not in {"min", "max"})
        given[column.name][what] = text
    lengths = [_field_rows(column, given[column.name]) for column in columns]
    counts = [*(rows for rows in lengths if rows is not None), *([int(number)] if number is not None else [])]
    rows = min(counts, default=None)
    if rows is None:
        raise ConfigError(
            "datagen without an end makes rows for ever, and a query would read all of them",
            hint="'number-of-rows' = '1000', or a field with 'kind' = 'sequence', 'start' and 'end'",
        )
    values = ", ".join(
        f"CAST({_value(column, given[column.name])} AS {_type(column.type)}) AS {quoted(column.name)}"
        for column in columns
    )
    return f"SELECT {values} FROM range({rows}) AS rows(i)"


def _check_number(key: str, text: str, *, whole: bool) -> None:
    if not re.fullmatch(r"-?\d+" if whole else r"-?\d+(\.\d+)?", text):
        raise ConfigError(
            f"{key} = {text!r} is not a {'whole ' if whole else ''}number", option=key, hint=f"'{key}' = '100'"
        )
    if key.endswith(("number-of-rows", ".length")) and int(text) < 0:
        raise ConfigError(f"{key} = {text!r} is below 0", option=key, hint=f"'{key}' = '100'")


def _field_rows(column: Field, given: Mapping[str, str]) -> int | None:
    """Return how many rows a sequence has, or None. ConfigError for options that have no effect on the column."""
    of_sequence = given.get("kind") == "sequence"
    acting = _SEQUENCE if of_sequence else _RANDOM.get(_type(column.type).partition("(")[0], _BOUNDS)
    for key in given:
        if key != "kind" and key not in acting:
            raise ConfigError(
                f"fields.{column.name}.{key} has no effect on this column",
                hint="a sequence has 'start' and 'end'; random numbers have 'min' and 'max', and texts 'length'",
            )
    for low, high in (_SEQUENCE, _BOUNDS):
        if low in given and high in given and float(given[low]) > float(given[high]):
            raise ConfigError(
                f"fields.{column.name}.{low} is greater than fields.{column.name}.{high}", hint="exchange them"
            )
    return int(given["end"]) - int(given["start"]) + 1 if of_sequence and set(_SEQUENCE) <= given.keys() else None


def _value(column: Field, given: Mapping[str, str]) -> str:
    """Return the SQL of a value of datagen."""
    kind = given.get("kind", "random")
    if kind == "sequence" and set(_SEQUENCE) <= given.keys():
        return f"{int(given['start'])} + i"
    made = _random(column.type, given) if kind == "random" and isinstance(column.type, AtomicType) else None
    if made is None:
        raise ConfigError(
            f"datagen cannot make values of the column {column.name!r}",
            hint="'kind' = 'random', or 'sequence' with 'start' and 'end'; numbers, texts, BOOLEAN and TIMESTAMP",
        )
    return made


def _random(type_: AtomicType, given: Mapping[str, str]) -> str | None:
    """Return the SQL of a random value; None for a type without one."""
    match type_.root:
        case "BOOLEAN":
            return "random() < 0.5"
        case "CHAR" | "VARCHAR":
            length = int(given.get("length", type_.length if type_.root == "CHAR" else _LENGTH))
            # Hexadecimal digits, as in Flink.
            return f"substr(repeat(md5(random()::VARCHAR), {length // 32 + 1}), 1, {length})"
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return "now()"
        case "DECIMAL":
            return _between(given, 10 ** (type_.precision - type_.scale) - 1)
        case "FLOAT" | "DOUBLE":
            return _between(given, 2**31 - 1)
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return f"floor({_between(given, _MOST.get(type_.root, 2**31 - 1), whole=True)})"
    return None


def _between(given: Mapping[str, str], most: int, *, whole: bool = False) -> str:
    low, high = float(given.get("min", 0)), float(given.get("max", most))
    return f"({low} + random() * {high - low + whole})"


def _type(type_: DataType) -> str:
    """Return DuckDB's name of a type."""
    match type_:
        case AtomicType() if type_.root == "DECIMAL":
            return f"DECIMAL({type_.precision}, {type_.scale})"
        case AtomicType() if type_.root in _TYPES:
            return _TYPES[type_.root]
        case ArrayType():
            return f"{_type(type_.element)}[]"
        case MapType():
            return f"MAP({_type(type_.key)}, {_type(type_.value)})"
        case RowType():
            return f"STRUCT({', '.join(f'{quoted(field.name)} {_type(field.type)}' for field in type_.fields)})"
    raise ConfigError("a file of this connector cannot have this type", type=type_, hint="read it as another type")


def _refuse_rest(options: Iterable[str], known: Iterable[str]) -> None:
    for key in options:
        hint = did_you_mean(key, known, "leave it out")
        raise ConfigError(f"{key!r} is not an option of this connector here", hint=hint)
