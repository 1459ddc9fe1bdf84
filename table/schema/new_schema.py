"""Creation of the first version of a table's schema from the user's columns, keys and options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.options.checks import check_given
from penstock.table.options.declaration import TableOption
from penstock.table.options.definition import PARTITION, PRIMARY_KEY
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.members import number_columns
from penstock.table.schema.option_changes import refuse_branch
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import read_type
from penstock.table.schema.validation import check_default, check_schema
from penstock.table.values.arguments import option_texts
from penstock.table.values.arrow_types import NO_ID, fields_from_arrow
from penstock.table.values.types import DataType, Field, with_nullability

TypeLike: TypeAlias = str | Mapping[str, object] | DataType | pa.DataType
# A column is given as (name, type), as (name, type, comment), or as a Field.
ColumnLike: TypeAlias = Field | tuple[str, TypeLike] | tuple[str, TypeLike, str | None]


def create_schema(
    schema: pa.Schema | Sequence[ColumnLike],
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
    *,
    now: int,
) -> TableSchema:
    """Return version 0, created at `now` (epoch milliseconds).

    Raise ConfigError for the first of Paimon's rules it breaks.
    """
    texts = option_texts(options)
    check_given(texts)
    _refuse_branches(texts)
    primary = _keys_of(primary_keys, texts, PRIMARY_KEY)
    partition = _keys_of(partition_keys, texts, PARTITION)
    # The first column gets id 0, as in Java.
    columns, highest = number_columns(_columns(schema))
    first = TableSchema(
        id=0,
        fields=with_keys_not_null(columns, primary),
        highest_field_id=highest,
        partition_keys=partition,
        primary_keys=primary,
        options=texts,
        comment=comment,
        time_millis=now,
    )
    check_schema(first)
    for column in first.fields:
        check_default(column)
    return first


def _refuse_branches(options: Mapping[str, str]) -> None:
    """Raise ConfigError for options that name a branch: a new table has no branches."""
    for key in options:
        refuse_branch(key)
    branch = (options.get(SCAN_FALLBACK_BRANCH.key) or "").strip()
    if branch:
        raise ConfigError(
            f"a new table has no branch {branch!r}",
            option=SCAN_FALLBACK_BRANCH.key,
            hint="create the table, then the branch (CALL sys.create_branch), then set the option by ALTER TABLE",
        )


def with_keys_not_null(columns: tuple[Field, ...], primary_keys: Sequence[str]) -> tuple[Field, ...]:
    """Return the columns with all primary key columns NOT NULL."""
    return tuple(
        replace(column, type=with_nullability(column.type, nullable=False)) if column.name in primary_keys else column
        for column in columns
    )


def _columns(schema: pa.Schema | Sequence[ColumnLike]) -> tuple[Field, ...]:
    if isinstance(schema, pa.Schema):
        return fields_from_arrow(schema)
    if isinstance(schema, str) or not isinstance(schema, Iterable):
        raise ConfigError(
            f"the columns of a table cannot be a {type(schema).__name__}",
            hint='pass a pyarrow schema, or a list of ("name", "INT NOT NULL")',
        )
    return tuple(_column(given) for given in schema)


def _column(given: ColumnLike) -> Field:
    match given:
        case Field():
            return given
        case (str(name), type_):
            return Field(NO_ID, name, read_type(type_))
        case (str(name), type_, description):
            return Field(NO_ID, name, read_type(type_), description)
    raise ConfigError(f"{given!r} is not a column", hint='write it as ("name", "INT NOT NULL")')


def _keys_of(given: Sequence[str], options: dict[str, str], option: TableOption[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the keys and remove their option. Some engines pass keys as an option; the schema stores them as keys."""
    if isinstance(given, str):
        raise ConfigError(f"{option.key} must be a list of columns, not a text", hint=f"write [{given!r}]")
    named = TableOptions(options)[option]
    options.pop(option.key, None)
    if named and given:
        raise ConfigError(f"the option {option.key} repeats an argument", hint="remove one of the two")
    return tuple(given) or named
