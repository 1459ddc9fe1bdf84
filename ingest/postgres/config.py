"""The `source` section of a pipeline that captures a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from penstock.ingest.connector import Keyless, SourceConfig
from penstock.settings import Names, Seconds, Strict, told_in_place
from penstock.table_pattern import TablePattern

MODES = ("initial", "latest-offset", "snapshot")


class PostgresStartup(Strict):
    """Startup modes, named as in Flink CDC. The ending `-offset` is optional."""

    mode: Literal["initial", "latest-offset", "snapshot"] = "initial"

    @field_validator("mode", mode="before")
    @classmethod
    def _by_any_of_its_names(cls, given: object) -> object:
        text = str(given).strip().lower()
        text = "latest-offset" if text == "latest" else text
        if text not in MODES:
            known = f"Valid scan.startup.mode for Postgres CDC are [{', '.join(MODES)}]"
            raise ValueError(f"Unknown scan.startup.mode='{given}'. {known}")
        return text


class PostgresSnapshot(Strict):
    chunk_rows: int = Field(default=50_000, gt=0)
    parallel: int | None = Field(
        default=None, gt=0, description="chunks that are read at the same time; default: one per task"
    )


class PostgresPublication(Strict):
    name: str | None = Field(default=None, description="default: the name of the slot, followed by _pub")
    create: bool = Field(default=True, description="create it, and add captured tables to it, as far as the user may")


class PostgresSsl(Strict):
    """The protection of the connection, by libpq's names."""

    mode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class PostgresConfig(SourceConfig):
    type: Literal["postgres"]
    hostname: str
    port: int = Field(default=5432, gt=0, lt=65536)
    username: str
    password: str = Field(default="", repr=False)
    database_name: str
    schema_name: str = ".*"
    table_name: str = ".*"
    tables: Names = Field(
        default=(),
        description="tables to capture, as schema.table; both parts may be regular expressions; instead of schema-name "
        "and table-name",
    )
    tables_exclude: Names = Field(
        default=(), alias="tables.exclude", description="tables to exclude; wins over `tables`"
    )
    slot_name: str = Field(alias="slot.name", description="replication slot of this pipeline; created if missing")
    failover: bool = Field(default=False, description="create the slot so that standbys keep it (version 17 and newer)")
    publication: PostgresPublication = PostgresPublication()
    startup: PostgresStartup = PostgresStartup()
    snapshot: PostgresSnapshot = PostgresSnapshot()
    ssl: PostgresSsl = PostgresSsl()
    connect_timeout: Seconds = 30.0
    newly_added_tables: bool = True
    heartbeat: Seconds = Field(
        default=10.0, description="seconds between two queries of the server's position, for freshness"
    )
    keyless: Keyless = "leave-out"

    @field_validator("slot_name")
    @classmethod
    def _is_a_slot(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
            raise ValueError(f"slot.name {name!r} is not valid: use at most 63 lower case letters, digits and _")
        return name

    @field_validator("keyless")
    @classmethod
    def _cannot_append(cls, given: Keyless) -> Keyless:
        if given == "append":
            raise ValueError("tables without a primary key cannot be captured from PostgreSQL: use leave-out or fail")
        return given

    @field_validator("tables", "tables_exclude")
    @classmethod
    def _are_patterns(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            with told_in_place():
                TablePattern.of(one)
        return given

    @field_validator("schema_name", "table_name")
    @classmethod
    def _is_an_expression(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as reason:
            raise ValueError(f"{pattern!r} is not a regular expression: {reason}") from reason
        return pattern
