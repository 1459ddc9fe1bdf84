"""First pipeline files, from what a source is and shows."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.errors import ConfigError, PenstockError
from penstock.formats import FORMATS, decode
from penstock.formats.change import DecodeOptions, Messages

_HEAD = """# yaml-language-server: $schema=./penstock.schema.json
#   ^ keys completed and checked by editors, after:  penstock schema --output penstock.schema.json
version: 1

pipeline:
  name: {name}                    # commit user, metric label, checkpoint folder
  # checkpoint: {warehouse}/_penstock/{name}   # the default; keep this folder: a pipeline resumes from it
  trigger: 30s                    # time between batches
  # until: caught-up              # read what the source contains now, commit, exit with code 0
"""
_SINK = """
sink:
  type: paimon
  catalog:
    warehouse: {warehouse}
  database: {database}
  # table-options:                # options of new tables; any table option of Paimon
  #   bucket: "4"
  #   changelog-producer: input

errors:
  bad-record: fail                # fail | dead-letter | skip
"""
_KAFKA = """
source:
  type: kafka
  properties:                     # properties of the Java client; secrets by reference: "${{KAFKA_PASSWORD}}"
    bootstrap.servers: "{servers}"
  topic: [{topic}]
  value.format: {format}
  startup:
    mode: earliest-offset         # latest-offset | timestamp | specific-offsets | group-offsets
"""
_FILES = """
source:
  type: files
  path: {path}
  pattern: "*"                    # names of the files to read; each is read once
  value.format: {format}
"""
_MYSQL = """
source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: "${{MYSQL_PASSWORD}}"   # resolved where it is used, never stored
  tables: [{tables}]                # both parts may be regular expressions; tables.exclude excludes tables
"""


@dataclass(frozen=True, slots=True)
class Draft:
    kind: str
    source: str
    found: str
    name: str
    environment: tuple[str, ...] = ()

    def text(self, name: str | None, warehouse: str, database: str) -> str:
        name = name or self.name
        return (
            _HEAD.format(name=name, warehouse=warehouse)
            + self.source
            + _SINK.format(warehouse=warehouse, database=database)
        )

    def next_steps(self, file: Path) -> list[str]:
        exports = [f"  export {name}=..." for name in self.environment]
        return ["next:", *exports, f"  penstock check {file}", f"  penstock plan {file}", f"  penstock run {file}"]


def draft_of(source: str, *, offline: bool, value_format: str | None) -> Draft:
    url = urlsplit(source) if "://" in source else None
    match url.scheme if url else "":
        case "mysql" | "mariadb":
            assert url is not None
            return _mysql(url, offline=offline)
        case "kafka":
            assert url is not None
            return _kafka(url, offline=offline, value_format=value_format)
        case "" | "file" | "s3" | "gs" | "hdfs":
            return _files(source, offline=offline, value_format=value_format)
    raise ConfigError(
        f"{source!r} is not a source", hint="mysql://user@host:3306/database, kafka://host:9092/topic, or a folder"
    )


def _mysql(url: SplitResult, *, offline: bool) -> Draft:
    database = url.path.strip("/")
    if not url.hostname or not database:
        raise ConfigError("the URL contains no database", hint="mysql://user@host:3306/database")
    user, port = unquote(url.username or getpass.getuser()), url.port or 3306
    found = "The server was not examined." if offline else _tables(url, user, port, database)
    tables = f'"{database}.*"'
    text = _MYSQL.format(host=url.hostname, port=port, user=user, tables=tables)
    return Draft("mysql", text, found, database, ("MYSQL_PASSWORD",))


def _tables(url: SplitResult, user: str, port: int, database: str) -> str:
    from penstock.ingest.mysql.server.address import Secret, ServerAddress
    from penstock.ingest.mysql.server.catalog import list_tables
    from penstock.ingest.mysql.server.connection import connected

    password = Secret(unquote(url.password)) if url.password else Secret("MYSQL_PASSWORD", "env")
    with connected(ServerAddress(url.hostname or "", port, user, password)) as connection:
        tables = [table for table in list_tables(connection) if table.database == database]
    if not tables:
        raise ConfigError(
            f"the server lists no tables in database {database}",
            hint="check the name, and that the user has privileges on the tables",
        )
    without = sum(not table.has_primary_key for table in tables)
    keys = f", {without} of them without a primary key" if without else ""
    return (
        f"The server has {len(tables)} tables in {database}, about {sum(table.rows for table in tables):,} rows{keys}."
    )


def _kafka(url: SplitResult, *, offline: bool, value_format: str | None) -> Draft:
    topic = url.path.strip("/")
    if not url.netloc or not topic:
        raise ConfigError("the URL contains no topic", hint="kafka://host:9092/topic")
    found, kind = "The topic was not examined.", value_format
    if not offline:
        kind, found = _seen_format(lambda: _kafka_messages(url.netloc, topic), value_format)
    text = _KAFKA.format(servers=url.netloc, topic=topic, format=kind or "canal-json")
    return Draft("kafka", text, found, topic)


def _kafka_messages(servers: str, topic: str) -> list[bytes]:
    from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
    from penstock.ingest.kafka.source import KafkaSource
    from penstock.ingest.source import Limit, patience

    source = KafkaSource(
        KafkaSettings({"bootstrap.servers": servers}, (topic,), startup=StartOffsets("earliest-offset"))
    )
    with patience(0.0):
        end = source.latest_offsets({}, Limit(rows=50))
        ranges = source.plan({}, end, 1)
        values = [v for one in ranges for fetched in source.read(one) for v in fetched.messages.values if v]
    return values[:50]


def _files(source: str, *, offline: bool, value_format: str | None) -> Draft:
    found, kind = "The folder was not examined.", value_format
    if not offline:
        kind, found = _seen_format(lambda: _file_messages(source), value_format)
    text = _FILES.format(path=source, format=kind or "canal-json")
    return Draft("files", text, found, source.rstrip("/").rpartition("/")[2] or "files")


def _file_messages(folder: str) -> list[bytes]:
    import tempfile

    from penstock.ingest.files.source import FilesSettings, FilesSource
    from penstock.ingest.source import Limit
    from penstock.storage.state_folder import StateFolder

    with tempfile.TemporaryDirectory(prefix="penstock-") as ledger:
        source = FilesSource(FilesSettings(folder, StateFolder(ledger)))
        start = source.initial_offsets()
        end = source.latest_offsets(start, Limit(rows=50))
        for range_ in source.plan(start, end, 1) if end != start else ():
            for fetched in source.read(range_):
                return [value for value in fetched.messages.values if value][:50]
    return []


def _seen_format(messages: Callable[[], list[bytes]], said: str | None) -> tuple[str | None, str]:
    values = messages()
    if said is not None:
        return said, f"Examined {len(values)} messages."
    if not values:
        return None, "There are no messages yet: set value.format to their format."
    for kind in FORMATS.names():
        if kind != "json" and _fits(kind, values):
            return kind, f"The first {len(values)} messages are {kind}."
    if _fits("json", values):
        return "json", f"The first {len(values)} messages are plain JSON objects."
    raise ConfigError(
        "the messages are in no supported format", hint=f"set --format to one of {', '.join(FORMATS.names())}"
    )


def _fits(kind: str, values: list[bytes]) -> bool:
    """Most of them give rows, none of them is bad."""
    import numpy as np

    try:
        decoded = decode(kind, Messages(values, np.arange(len(values), dtype=np.int64)), DecodeOptions())
    except PenstockError:
        return False
    return not decoded.bad and sum(len(batch) for batch in decoded.batches) * 2 >= len(values)
