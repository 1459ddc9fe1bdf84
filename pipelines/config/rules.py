"""The sections that change and redirect source tables: transform, route, and the schema changes to follow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from penstock.settings import Names, Seconds, Strict, Text, errors_in_place
from penstock.table_pattern import TablePattern

EventType = Literal[
    "create.table", "add.column", "alter.column.type", "rename.column", "drop.column", "drop.table", "truncate.table"
]
Dialect = Literal["sql", "flink-cdc"]
Behavior = Literal["exception", "evolve", "try_evolve", "lenient", "ignore"]


def _options(given: object) -> object:
    """Accept `k=v, k2=v2` for a mapping."""
    if not isinstance(given, str):
        return given
    # Only a comma before another key separates options: values may contain commas.
    pairs = [part.partition("=") for part in re.split(r",(?=\s*[\w.-]+\s*=)", given) if part.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


Options = Annotated[Text, BeforeValidator(_options)]


def _repeated(names: Iterable[str]) -> str | None:
    """Return a name that comes more than once, None if there is no such name."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


class LookupRetryConfig(Strict):
    """Asks for keys that are missing in a dimension again, as Paimon's hint `retry-predicate = lookup_miss`."""

    fixed_delay: Seconds = Field(default=10.0, description="time between two attempts")
    max_attempts: int = Field(default=3, gt=0, description="after them, missing rows count as misses")
    output_mode: Literal["ordered", "allow_unordered"] = Field(
        default="ordered", description="accepted as in Flink; rows stay in order with both"
    )


class LookupConfig(Strict):
    """Adds columns of a dimension table to each row, found by the values of some columns."""

    table: str = Field(description="the dimension as database.table, in the catalog of the sink")
    on: Text = Field(min_length=1, description="columns of the row, and the columns of the dimension they are equal to")
    columns: Names = Field(min_length=1, description="columns of the dimension to add; `city as user_city` renames one")
    join: Literal["left", "inner"] = Field(
        default="left", description="whether a row without a row in the dimension is kept, with nulls"
    )
    partitions: str | None = Field(
        default=None,
        description="the partitions to look up: `max_pt()`, `max_two_pt()`, or `dt=2024-05-06;dt=2024-05-07`"
        " (default: all)",
    )
    retry: LookupRetryConfig | None = None

    @field_validator("table")
    @classmethod
    def _has_a_database(cls, given: str) -> str:
        if not all(given.partition(".")):
            raise ValueError(f"{given!r} is not the name of a table; write database.table")
        return given

    @field_validator("on")
    @classmethod
    def _compares_once(cls, given: dict[str, str]) -> dict[str, str]:
        if (twice := _repeated(given.values())) is not None:
            raise ValueError(
                f"{twice!r} of the dimension is compared with several columns; compare it with one, and write the other"
                " comparison as a filter"
            )
        return given

    @field_validator("columns")
    @classmethod
    def _are_columns(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            words = text.split()
            if len(words) != 1 and not (len(words) == 3 and words[1].lower() == "as"):
                raise ValueError(f"{text!r} is not a column; write  city  or  city as user_city")
        if (twice := _repeated(text.split()[-1] for text in given)) is not None:
            raise ValueError(f"two columns are named {twice!r}; rename one, as in  city as user_city")
        return given


class TransformConfig(Strict):
    """Changes rows of the source tables that match. If several rules match a table, only the first one applies."""

    source_table: str = Field(description="source tables as database.table; both parts may be regular expressions")
    dialect: Dialect = Field(
        default="sql",
        description="language of projection and filter; `flink-cdc` has Flink CDC's rules for null, LIKE, TRIM and the"
        " division of integers",
    )
    lookup: tuple[LookupConfig, ...] = Field(
        default=(), description="dimensions whose columns are added first, one after the other"
    )
    projection: str | None = Field(default=None, description="columns and expressions, as in a SELECT list")
    filter: str | None = Field(default=None, description="condition on the rows to keep")
    mask: Text = Field(default_factory=dict, description="columns to mask, and how")
    primary_keys: Names = ()
    partition_keys: Names = ()
    table_options: Options = Field(
        default_factory=dict, description="table options of the target tables that these source tables create"
    )
    description: str | None = None

    @field_validator("source_table", "projection", "filter", "mask")
    @classmethod
    def _can_be_read(cls, given: Any, about: ValidationInfo) -> Any:
        with errors_in_place():
            match about.field_name, given:
                case "source_table", str():
                    TablePattern.of(given)
                case ("projection" | "filter" | "mask") as field, _:
                    _check_expression(field, given, about.data.get("dialect", "sql"))
        return given


def _check_expression(field: str, given: Any, dialect: Dialect = "sql") -> None:
    """Raise ConfigError if the parser of expressions does not accept it."""
    # Here, because most files contain no expression, and its functions take long to import.
    from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
    from penstock.schema_evolution.masks import Mask

    match field, given:
        case "projection", str():
            parse_projection(given, dialect)
        case "filter", str():
            parse_expression(given, dialect)
        case "mask", Mapping():
            for mask in given.values():
                Mask.of(mask)


Deletes = Literal["hard", "soft", "history"]
ExpectAction = Literal["warn", "drop", "dead-letter", "fail"]


class ExpectConfig(Strict):
    """A quality rule: a condition that the new rows of the source tables that match should meet. All rules that match
    a table apply, after its transform.
    """

    source_table: str = Field(description="source tables as database.table; both parts may be regular expressions")
    condition: str = Field(description="condition on the rows, as in a filter; null does not meet it")
    action: ExpectAction = Field(default="warn", description="what happens to a row that does not meet it")
    name: str | None = Field(default=None, description="its name in metrics and status; default: the condition")

    @field_validator("source_table", "condition")
    @classmethod
    def _can_be_read(cls, given: str, about: ValidationInfo) -> str:
        with errors_in_place():
            if about.field_name == "source_table":
                TablePattern.of(given)
            else:
                _check_expression("filter", given)
        return given


class RouteConfig(Strict):
    """Names the target table for rows of the source tables that match. If several rules match, only the first one
    applies.
    """

    source_table: str = Field(description="source tables as database.table; both parts may be regular expressions")
    sink_table: str = Field(
        description="target table as database.table; {database}, {table} and $1 stand for parts of the source name"
    )
    replace_symbol: str | None = Field(
        default=None, description="placeholder in sink-table that is replaced by the source table's name"
    )
    add_columns: Text = Field(
        default_factory=dict, description="columns with a constant string each, such as _shard: $1"
    )
    deletes: Deletes | None = Field(default=None, description="as `deletes` of the sink, for these source tables")
    freshness: Seconds | None = Field(
        default=None, description="as `freshness` of the sink, for these source tables; `0s`: with every batch"
    )
    description: str | None = None

    @field_validator("source_table")
    @classmethod
    def _is_a_pattern(cls, given: str) -> str:
        with errors_in_place():
            TablePattern.of(given)
        return given
