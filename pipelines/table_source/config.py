"""The `source` section of a pipeline that reads the changes of Paimon tables."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from penstock.errors import ConfigError
from penstock.ingest.connector import SourceConfig
from penstock.pipelines.config.sink import CatalogConfig
from penstock.settings import Names, Text, Wrong
from penstock.table.options.scans import (
    CONSUMER_IGNORE_PROGRESS,
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    STREAMING_READ_APPEND_OVERWRITE,
    STREAMING_READ_OVERWRITE,
)

# The options of a streaming read that decide where it starts, and which rows it shows.
READ_OPTIONS = {
    option.key
    for option in (
        CONSUMER_IGNORE_PROGRESS,
        SCAN_MODE,
        SCAN_SNAPSHOT_ID,
        SCAN_TAG_NAME,
        SCAN_TIMESTAMP,
        SCAN_TIMESTAMP_MILLIS,
        STREAMING_READ_APPEND_OVERWRITE,
        STREAMING_READ_OVERWRITE,
    )
}


def _full_names(given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        database, _, table = name.partition(".")
        if not database or not table:
            raise ValueError(f"{name!r} is not the name of a table; write database.table")
    if len(set(given)) < len(given):
        raise ValueError("a table is named twice")
    return given


def _of_streams(given: dict[str, str]) -> dict[str, str]:
    unknown = sorted(given.keys() - READ_OPTIONS)
    if unknown:
        known = ", ".join(sorted(READ_OPTIONS))
        error = ConfigError(f"{unknown[0]} is not an option of this source", hint=f"the options are {known}")
        raise Wrong(error)
    return given


class TableSourceConfig(SourceConfig):
    type: Literal["table"]
    tables: Annotated[Names, AfterValidator(_full_names)] = Field(
        min_length=1, description="the tables to read, each as database.table; `table` for one"
    )
    catalog: CatalogConfig | None = Field(default=None, description="where the tables are; default: the sink's catalog")
    consumer_id: str | None = Field(
        default=None, description="consumer by which the tables keep the snapshots that were not read yet"
    )
    options: Annotated[Text, AfterValidator(_of_streams)] = Field(
        default_factory=dict, description="options of Paimon's streaming reads, such as scan.mode"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_table(cls, given: Any) -> Any:
        """Accept `table: shop.orders` for a list of one."""
        if not isinstance(given, dict) or "table" not in given:
            return given
        if "tables" in given:
            raise ValueError("write either `table` or `tables`")
        return {**{key: value for key, value in given.items() if key != "table"}, "tables": given["table"]}
