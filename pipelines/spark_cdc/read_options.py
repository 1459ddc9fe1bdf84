"""The options of a read of one source table: keys of the connector's section, and keys of the read itself.

The keys of the section `source` of pipeline files are the options, with a dot before a key of an inner section:
`hostname`, `startup.mode`, `properties.bootstrap.servers`. So each connector has its options already.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.ingest.connector import Connector, SourceConfig
from penstock.ingest.connector_requests import SourceRequest, TableName, TableSelection
from penstock.ingest.connectors import connector_named
from penstock.ingest.source import NO_LIMIT, Limit
from penstock.pipelines.spark_cdc.source_section import section_of
from penstock.row_kinds import ROWKIND
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.settings import size
from penstock.storage.state_folder import StateFolder

PREFIX = "_cdc_"
_OWN = {
    "table": "the source table, as database.table",
    "state": "a folder for the source's own files",
    "rowkind-column": "the column with row kinds",
    "metadata-prefix": "the beginning of the names of metadata columns",
    "new-columns": "fail or ignore",
    "bad-records": "fail or skip",
    "type-mapping": "as in pipelines",
    "time-zone": "the zone of times without one",
    "sample-records": "messages or documents from which columns are found",
    "parallelism": "tasks of a batch",
    "max-batch.rows": "rows of a batch",
    "max-batch.bytes": "bytes of a batch",
}
SAMPLED = 1000
_NO_FOLDER = "penstock-no-state-"


@dataclass(frozen=True, slots=True)
class CdcRead:
    """A read of one table of a source, as described by options. Contains settings only, so it pickles.

    `table` is None to read all messages of a source of messages. With `ignores_new`, columns of the source that the
    query does not have are left out; otherwise they end it; None leaves them out if the query's schema was chosen. With
    `skips_bad`, records that cannot be read are left out. `state` is the folder that the user has set.
    """

    kind: str
    config: SourceConfig
    request: SourceRequest
    table: TableName | None
    mapping: TypeMapping
    kinds: str = ROWKIND
    prefix: str = PREFIX
    ignores_new: bool | None = None
    skips_bad: bool = False
    limit: Limit = NO_LIMIT
    tasks: int = 1
    sampled: int = SAMPLED
    state: StateFolder | None = None

    @property
    def connector(self) -> Connector[Any]:
        return connector_named(self.kind)

    @property
    def title(self) -> str:
        """The table in texts for people."""
        return ".".join(self.table) if self.table else f"the messages of {self.kind}"

    @classmethod
    def of(cls, kind: str, options: Mapping[str, str]) -> CdcRead:
        """Parse the options of `format("<kind>-cdc")`; ConfigError for one that is unknown or cannot be followed."""
        connector = connector_named(kind)
        # Spark's options are not case sensitive, and `load` adds a path if it is given one.
        written = {name.lower().replace("_", "-"): value for name, value in options.items()}
        if "path" in written and "path" not in connector.config.model_fields:
            raise ConfigError(f"{kind}-cdc has no path", option="path", hint='.option("table", "shop.orders").load()')
        own = {name: written.pop(name) for name in _OWN if name in written}
        table = _table(own.get("table"), connector)
        if table is not None and "tables" in connector.config.model_fields:
            if "tables" in written:
                raise ConfigError("a stream has the rows of one table", option="tables", hint="set table instead")
            written["tables"] = r"\.".join(re.escape(part) for part in table)
        mapping = TypeMapping.of([own.get("type-mapping", "")])
        config = section_of(connector, written, _OWN)
        tasks = _number("parallelism", own.get("parallelism", str(os.cpu_count() or 1)))
        readers = connector.readers(config)
        request = _request(connector, config, own, table, mapping)
        return cls(
            kind,
            config,
            request,
            table,
            mapping,
            own.get("rowkind-column", ROWKIND),
            own.get("metadata-prefix", PREFIX),
            _choice(own, "new-columns", "ignore") if "new-columns" in own else None,
            _choice(own, "bad-records", "skip"),
            _limit(own),
            tasks if readers is None else min(tasks, readers),
            _number("sample-records", own.get("sample-records", str(SAMPLED))),
            request.state if "state" in own else None,
        )


def _table(text: str | None, connector: Connector[Any]) -> TableName | None:
    if text is None:
        if connector.capabilities.describes_tables:
            raise ConfigError(
                f"{connector.name}-cdc reads one table", option="table", hint='.option("table", "shop.orders")'
            )
        return None
    database, dot, table = text.partition(".")
    if not (database and dot and table):
        raise ConfigError(
            f"{text!r} is not a table",
            option="table",
            hint="write database.table, such as shop.orders; in PostgreSQL schema.table, such as public.orders",
        )
    return database, table


def _request(
    connector: Connector[Any],
    config: SourceConfig,
    own: Mapping[str, str],
    table: TableName | None,
    mapping: TypeMapping,
) -> SourceRequest:
    state = _state(connector, own.get("state"))
    selection = TableSelection()
    if table is not None and connector.capabilities.describes_tables:
        selection = TableSelection(including_databases=re.escape(table[0]), including_tables=re.escape(table[1]))
    return SourceRequest(
        state=state,
        snapshot_requests=state.below("signals"),
        zone=_zone(own.get("time-zone", "UTC")),
        selection=selection,
        keyless=connector.keyless(config),
        all_as_text=mapping.to_string,
        times_as_text=mapping.time_to_string,
        zero_dates_fail=mapping.zero_date_error,
    )


def _state(connector: Connector[Any], folder: str | None) -> StateFolder:
    if folder is None:
        if connector.capabilities.keeps_state:
            raise ConfigError(
                f"a source of type {connector.name} keeps files between two runs of a query",
                option="state",
                hint='.option("state", "/checkpoints/orders-state"): a folder of this query alone, kept as long as its'
                " checkpoint",
            )
        # A folder that does not exist reads as empty.
        return StateFolder(f"{tempfile.gettempdir()}/{_NO_FOLDER}{uuid.uuid4().hex}")
    if "://" not in folder and not folder.startswith("/"):
        raise ConfigError(
            f"{folder!r} is not an absolute path, and Spark's processes have other working folders",
            option="state",
            hint="write it from the root, such as /data/state, or as the URL of a store",
        )
    return StateFolder(folder)


def _choice(own: Mapping[str, str], name: str, other: str) -> bool:
    """Return whether an option has its other value than fail, the default."""
    text = own.get(name, "fail").lower()
    if text not in {"fail", other}:
        raise ConfigError(f"{text!r} is not a value of {name}", option=name, hint=f"fail or {other}")
    return text == other


def _zone(text: str) -> str:
    try:
        # Arrow converts values later. It knows offsets too.
        pc.local_timestamp(pa.array([0], pa.timestamp("s", text)))
    except pa.ArrowInvalid as reason:
        raise ConfigError(
            f"{text!r} is not a time zone", option="time-zone", hint="write for example Europe/Berlin, or +08:00"
        ) from reason
    return text


def _limit(own: Mapping[str, str]) -> Limit:
    rows, most_bytes = own.get("max-batch.rows"), own.get("max-batch.bytes")
    try:
        most = None if most_bytes is None else size(most_bytes)
    except ValueError as reason:
        raise ConfigError(str(reason), option="max-batch.bytes", hint="write it as 256 mb") from reason
    return Limit(None if rows is None else _number("max-batch.rows", rows), most)


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(
            f"{text!r} is not a positive number",
            option=name,
            hint="write a whole number from 1 upwards, or leave the option out",
        )
    return int(text)
