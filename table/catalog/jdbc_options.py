"""The options of a JDBC catalog."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.storage.catalog_options import split_options
from penstock.storage.environment import Environment
from penstock.storage.open import is_object_store, open_storage
from penstock.table.catalog.jdbc_catalog import JdbcCatalog
from penstock.table.catalog.jdbc_database import JdbcDatabase
from penstock.table.catalog.jdbc_lock import JdbcLocks
from penstock.table.options.kinds import parse_boolean, parse_duration, parse_integer

_ACTING = {
    "uri": None,
    "catalog-key": "jdbc",
    "case-sensitive": "false",
    "lock.enabled": None,
    "lock.type": "jdbc",
    "lock-acquire-timeout": "8 min",
    "lock-check-max-sleep": "8 s",
    "lock-key-max-length": "255",
}
_PREFIX = "jdbc."


def open_jdbc(warehouse: str, options: Mapping[str, str], ambient: Environment) -> JdbcCatalog:
    """Open the catalog at `uri`. As in Java, `lock.enabled` is the default on object stores."""
    given, store = split_options("jdbc", options, _ACTING.keys(), _PREFIX)
    uri = given.get("uri")
    if not uri:
        raise ConfigError(
            "a JDBC catalog needs a uri", option="uri", hint="for example jdbc:sqlite:/path/to/names.sqlite"
        )
    settings = {name: default for name, default in _ACTING.items() if default} | given
    for name, only in (("case-sensitive", "false"), ("lock.type", "jdbc")):
        if settings[name].strip().lower() != only:
            raise ConfigError(
                f"{name} = {settings[name]} is not supported by a JDBC catalog", option=name, hint=f"use {only}"
            )
    storage, root = open_storage(warehouse, store)
    properties = {name.removeprefix(_PREFIX): text for name, text in given.items() if name.startswith(_PREFIX)}
    database = JdbcDatabase.of(uri, properties)
    locks = JdbcLocks(
        database,
        settings["catalog-key"],
        parse_duration(settings["lock-acquire-timeout"]),
        parse_duration(settings["lock-check-max-sleep"]),
        parse_integer(settings["lock-key-max-length"]),
    )
    # Java's writers look whether a snapshot exists and then write it. On an object store only the lock keeps two of
    # them apart, and a writer without it could be overwritten by them.
    locked = parse_boolean(settings.get("lock.enabled", str(is_object_store(warehouse))))
    used = locks if locked else None
    return JdbcCatalog(
        storage, root, ambient, database=database, key=settings["catalog-key"], locks=used, warehouse=warehouse
    )
