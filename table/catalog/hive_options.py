"""The options of a Hive catalog."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.storage.catalog_options import split_options
from penstock.storage.environment import Environment
from penstock.storage.open import is_object_store
from penstock.table.catalog.hive_catalog import HiveCatalog
from penstock.table.catalog.hive_commits import HiveLocks
from penstock.table.metastore.hive_client import HiveMetastore
from penstock.table.options.kinds import parse_boolean, parse_duration

# The options that have an effect, with their defaults.
_ACTING = {
    "uri": None,
    "case-sensitive": "false",
    "lock.enabled": None,
    "lock.type": "hive",
    "lock-acquire-timeout": "8 min",
    "lock-check-max-sleep": "8 s",
    "location-in-properties": "false",
    "sync-all-properties": "true",
}
# Options of Java's catalog, and the only value of each that is supported.
_ONLY = {
    "case-sensitive": "false",
    "lock.type": "hive",
    "location-in-properties": "false",
    "sync-all-properties": "true",
}


# Settings of Hive's client. `security.kerberos.login.*` concerns HDFS.
_KERBEROS = ("hive.metastore.sasl.", "hive.metastore.kerberos.")


def open_hive(warehouse: str, options: Mapping[str, str], environment: Environment) -> HiveCatalog:
    """Open the catalog at `uri`. As in Java, `lock.enabled` is the default on object stores."""
    for name in options:
        if name.startswith(_KERBEROS):
            raise ConfigError(
                f"{name} is not supported: Penstock does not log in to a metastore by Kerberos",
                option=name,
                hint="use a metastore that accepts connections without SASL, for example in the network of the job",
            )
    given, store = split_options("hive", options, _ACTING.keys())
    if not given.get("uri"):
        hint = "for example thrift://host:9083; hive-site.xml is not read"
        raise ConfigError("a Hive catalog needs a uri", option="uri", hint=hint)
    settings = {name: default for name, default in _ACTING.items() if default} | given
    for name, only in _ONLY.items():
        if settings[name].strip().lower() != only:
            raise ConfigError(
                f"{name} = {settings[name]} is not supported by a Hive catalog", option=name, hint=f"use {only}"
            )
    metastore = HiveMetastore.of(settings["uri"])
    acquire, sleep = parse_duration(settings["lock-acquire-timeout"]), parse_duration(settings["lock-check-max-sleep"])
    # On an object store, Java's writers look for a snapshot and then write it: without the lock they could
    # overwrite ours.
    locked = parse_boolean(settings.get("lock.enabled", str(is_object_store(warehouse))))
    locks = HiveLocks(metastore, acquire, sleep) if locked else None
    return HiveCatalog(warehouse, store, environment, metastore, locks)
