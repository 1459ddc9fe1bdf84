"""The `source` section of a pipeline that captures a MySQL or MariaDB server."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from penstock.ingest.database.action_options import startup_mode
from penstock.ingest.database.connector import Expression, RelationalConfig, RelationalSnapshot, TablePatterns
from penstock.settings import Bytes, Names, Seconds, Strict, check_mode

MODES = ("initial", "earliest-offset", "latest-offset", "specific-offset", "timestamp", "snapshot")


class MySqlStartup(Strict):
    """Startup modes, named as in Flink CDC. `offset` and `gtid` mean specific-offset, and the ending `-offset` is
    optional.
    """

    mode: Literal["initial", "earliest-offset", "latest-offset", "specific-offset", "timestamp", "snapshot"] = "initial"
    file: str | None = None
    # The first event of a binlog file follows four magic bytes.
    pos: int = Field(default=4, ge=4)
    gtid_set: str | None = None
    timestamp_millis: int | None = None

    @field_validator("mode", mode="before")
    @classmethod
    def _by_any_of_its_names(cls, given: object) -> object:
        short = {"offset": "specific-offset", "gtid": "specific-offset"}
        return startup_mode(short.get(str(given).strip().lower(), given), MODES, "MySQL CDC")

    @model_validator(mode="after")
    def _has_options_of_its_mode(self) -> MySqlStartup:
        if self.mode == "specific-offset" and not (self.file or self.gtid_set):
            raise ValueError("startup mode specific-offset needs file and pos, or gtid-set")
        if self.mode == "timestamp" and self.timestamp_millis is None:
            raise ValueError("startup mode timestamp needs timestamp-millis")
        place = "specific-offset"
        check_mode(self, {"file": place, "pos": place, "gtid_set": place, "timestamp_millis": "timestamp"})
        return self


class MySqlSnapshot(RelationalSnapshot):
    """With `mode: auto`, the snapshot is `exact` if a change that is applied twice would be visible in a target
    table.
    """

    mode: Literal["auto", "watermark", "exact"] = "auto"
    chunk_bytes: Bytes = 64 << 20
    # The defaults of Flink CDC: keys count as evenly distributed if (last - first + 1) / rows is between these.
    even_from: float = 0.05
    even_to: float = 1000.0
    order: Names = Field(
        default=(),
        description="tables whose snapshot is read, as database.table; both parts may be regular expressions",
    )
    resume: Literal["true"] = Field(
        default="true", description="a source snapshot that was interrupted always continues where it stopped"
    )


class MySqlDdl(Strict):
    """How DDL is handled that Paimon's own sync jobs ignore."""

    truncate: Literal["ignore", "delete-all"] = "ignore"
    drop: Literal["ignore", "delete-all"] = "ignore"
    rename_column: Literal["add", "rename"] = "add"


class Ssl(Strict):
    mode: Literal["disabled", "preferred", "required", "verify-ca", "verify-identity"] = "preferred"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    public_key: str | None = Field(default=None, description="file with the server's RSA key, for logins without TLS")
    allow_public_key_retrieval: bool = Field(
        default=False,
        description="accept the RSA key that the server sends without TLS; insecure, because it cannot be verified",
    )
    allow_cleartext_password: bool = Field(
        default=False,
        description="send the password in clear text (PAM, LDAP) to a server whose identity is not verified",
    )


class MySqlConfig(RelationalConfig):
    type: Literal["mysql"]
    port: int = Field(default=3306, gt=0, lt=65536)
    database_name: Expression = ".*"
    tables: TablePatterns = Field(
        default=(),
        description=(
            "tables to capture, as database.table; both parts may be regular expressions; instead of database-name "
            "and table-name"
        ),
    )
    server_id: str | None = None
    server_time_zone: str | None = None
    startup: MySqlStartup = MySqlStartup()
    snapshot: MySqlSnapshot = MySqlSnapshot()
    ddl: MySqlDdl = MySqlDdl()
    ssl: Ssl = Ssl()
    schema_comments: bool = False
    heartbeat: Seconds = Field(
        default=10.0,
        description="seconds between two queries of the server's position, for freshness, and between two batches that "
        "only move the position because other tables of the server have changed",
    )
    new_tables: Literal["include", "stream-only"] | None = Field(
        default=None,
        description="`stream-only`: do not read the rows that a new table already has when it is first seen",
    )
    online_ddl: tuple[Literal["gh-ost", "pt-osc"], ...] = Field(
        default=("gh-ost", "pt-osc"),
        description="schema change tools whose temporary tables are recognised: always both, other lists are refused",
    )

    @field_validator("new_tables", mode="before")
    @classmethod
    def _rejects_ignore(cls, given: object) -> object:
        if given == "ignore":
            raise ValueError("new-tables cannot be ignore: list the tables in  tables: [shop.orders]  without patterns")
        return given

    @field_validator("online_ddl")
    @classmethod
    def _recognises_both(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if set(given) != {"gh-ost", "pt-osc"}:
            raise ValueError("the tables of gh-ost and of pt-online-schema-change are always recognised: remove it")
        return given

    @property
    def reads_new_tables(self) -> bool:
        return self.newly_added_tables if self.new_tables is None else self.new_tables == "include"

    @model_validator(mode="after")
    def _selects_tables(self) -> MySqlConfig:
        if not self.tables and not {"database_name", "table_name"} & self.model_fields_set:
            raise ValueError("no tables are selected: write  tables: [shop.*]  or  database-name: shop")
        return self

    @property
    def server_ids(self) -> tuple[int, int] | None:
        """The first and last server id that readers may use."""
        if self.server_id is None:
            return None
        first, _, last = self.server_id.partition("-")
        return int(first), int(last or first)

    @field_validator("server_id")
    @classmethod
    def _is_a_number_or_a_range(cls, text: str | None) -> str | None:
        found = None if text is None else re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
        if text is not None and (not found or int(found[2] or found[1]) < int(found[1]) or int(found[1]) < 1):
            raise ValueError(f"server-id {text!r} is neither a number nor a range such as 5400-5463")
        return text
