"""The `source` section of a pipeline that captures a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from penstock.ingest.connector_requests import Keyless
from penstock.ingest.database.action_options import startup_mode
from penstock.ingest.database.connector import Expression, RelationalConfig, RelationalSnapshot, TablePatterns
from penstock.settings import Seconds, Strict

MODES = ("initial", "latest-offset", "snapshot")


class PostgresStartup(Strict):
    """Startup modes, named as in Flink CDC. The ending `-offset` is optional."""

    mode: Literal["initial", "latest-offset", "snapshot"] = "initial"

    @field_validator("mode", mode="before")
    @classmethod
    def _by_any_of_its_names(cls, given: object) -> object:
        return startup_mode(given, MODES, "Postgres CDC")


class PostgresSnapshot(RelationalSnapshot):
    """With `mode: auto`, the snapshot is `exact` if a change that is applied twice would be visible in a target
    table.
    """

    mode: Literal["auto", "watermark", "exact"] = Field(
        default="auto",
        description="exact: rows as of one position, so that no change is applied twice; updates and deletes during "
        "the snapshot then need REPLICA IDENTITY FULL",
    )


class PostgresDdl(Strict):
    """How statements on whole tables are handled that Paimon's own sync jobs ignore."""

    truncate: Literal["ignore", "delete-all"] = "ignore"
    drop: Literal["ignore", "delete-all"] = "ignore"


class PostgresPublication(Strict):
    name: str | None = Field(default=None, description="default: the name of the slot, followed by _pub")
    create: bool = Field(default=True, description="create it, and add captured tables to it, as far as the user may")


class PostgresSsl(Strict):
    """The protection of the connection, by libpq's names."""

    mode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class PostgresConfig(RelationalConfig):
    type: Literal["postgres"]
    port: int = Field(default=5432, gt=0, lt=65536)
    password: str = Field(default="", repr=False)
    schema_name: Expression = ".*"
    tables: TablePatterns = Field(
        default=(),
        description="tables to capture, as schema.table; both parts may be regular expressions; instead of schema-name "
        "and table-name",
    )
    slot_name: str = Field(alias="slot.name", description="replication slot of this pipeline; created if missing")
    failover: bool = Field(default=False, description="create the slot so that standbys keep it (version 17 and newer)")
    publication: PostgresPublication = PostgresPublication()
    ddl: PostgresDdl = PostgresDdl()
    startup: PostgresStartup = PostgresStartup()
    snapshot: PostgresSnapshot = PostgresSnapshot()
    ssl: PostgresSsl = PostgresSsl()
    answer_timeout: Seconds = Field(
        default=0.0,
        description="seconds without a byte after which a statement is given up, for connections through a pooler, "
        "which hides whether the server still works on it; 0: as long as the server works, or may do so",
    )
    heartbeat: Seconds = Field(
        default=10.0,
        description="seconds between two queries of the server's position, for freshness, and between two batches that "
        "only move the position because other tables of the server have changed",
    )

    @field_validator("slot_name")
    @classmethod
    def _is_a_slot(cls, name: str) -> str:
        # The server's own rule for names of slots.
        if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
            raise ValueError(f"slot.name {name!r} is not valid: use at most 63 lower case letters, digits and _")
        return name

    @field_validator("keyless")
    @classmethod
    def _cannot_append(cls, given: Keyless) -> Keyless:
        if given == "append":
            raise ValueError("tables without a primary key cannot be captured from PostgreSQL: use leave-out or fail")
        return given
