"""The sections that change and redirect source tables: transform, route, and the schema changes to follow."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.masks import Mask
from penstock.settings import Names, Strict, Text, errors_in_place
from penstock.table_pattern import TablePattern

EventType = Literal[
    "create.table", "add.column", "alter.column.type", "rename.column", "drop.column", "drop.table", "truncate.table"
]
Behavior = Literal["exception", "evolve", "try_evolve", "lenient", "ignore"]


def _options(given: object) -> object:
    """Accept `k=v, k2=v2` for a mapping."""
    if not isinstance(given, str):
        return given
    # Only a comma before another key separates options: values may contain commas.
    pairs = [part.partition("=") for part in re.split(r",(?=\s*[\w.-]+\s*=)", given) if part.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


Options = Annotated[Text, BeforeValidator(_options)]


class TransformConfig(Strict):
    """Changes rows of the source tables that match. If several rules match a table, only the first one applies."""

    source_table: str = Field(description="source tables as database.table; both parts may be regular expressions")
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
                case "projection", str():
                    parse_projection(given)
                case "filter", str():
                    parse_expression(given)
                case "mask", _:
                    for mask in given.values():
                        Mask.of(mask)
        return given


Deletes = Literal["hard", "soft"]


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
    description: str | None = None

    @field_validator("source_table")
    @classmethod
    def _is_a_pattern(cls, given: str) -> str:
        with errors_in_place():
            TablePattern.of(given)
        return given
