"""Options of Paimon's catalogs, and what a warehouse that is a plain folder does about each of them.

Commands pass catalog options together with the options of the store, so they are checked where the store is opened.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping

from penstock.errors import ConfigError, nearest

log = logging.getLogger(__name__)

_NO_METASTORE = "no metastore is used: databases and tables are the folders of the warehouse"
_NO_CACHE = "metadata is not cached between reads"
_NO_LOCK = "commits need no lock: a snapshot file is created only if it does not exist"
_NO_FORMAT_TABLES = "a warehouse folder contains only Paimon tables"
# Options that are accepted so that Flink, Spark and Penstock can share one configuration, and the behaviour that
# applies instead.
WITHOUT_EFFECT = {
    "alter-table-cascade": _NO_METASTORE,
    "cache-enabled": _NO_CACHE,
    "cache.deletion-vectors.max-num": _NO_CACHE,
    "cache.expire-after-access": _NO_CACHE,
    "cache.expire-after-write": _NO_CACHE,
    "cache.manifest.max-memory": _NO_CACHE,
    "cache.manifest.small-file-memory": _NO_CACHE,
    "cache.manifest.small-file-threshold": _NO_CACHE,
    "cache.manifest.soft-values": _NO_CACHE,
    "cache.partition.max-num": _NO_CACHE,
    "cache.snapshot.max-num-per-table": _NO_CACHE,
    "case-sensitive": "names are case-sensitive",
    "catalog-key": _NO_METASTORE,
    "client-pool-cache.eviction-interval-ms": _NO_METASTORE,
    "client-pool-cache.keys": _NO_METASTORE,
    "client-pool-size": _NO_METASTORE,
    "file-io.allow-cache": "each store has one client",
    "format-table.enabled": _NO_FORMAT_TABLES,
    "hadoop-conf-dir": "the HDFS client reads its configuration from HADOOP_CONF_DIR",
    "hive-conf-dir": _NO_METASTORE,
    "hive.skip-update-stats": _NO_METASTORE,
    "local-cache.block-size": _NO_CACHE,
    "local-cache.dir": _NO_CACHE,
    "local-cache.enabled": _NO_CACHE,
    "local-cache.max-size": _NO_CACHE,
    "local-cache.whitelist": _NO_CACHE,
    "location-in-properties": _NO_METASTORE,
    "lock-acquire-timeout": _NO_LOCK,
    "lock-check-max-sleep": _NO_LOCK,
    "lock-key-max-length": _NO_LOCK,
    "lock.enabled": _NO_LOCK,
    "lock.type": _NO_LOCK,
    "metastore.client.class": _NO_METASTORE,
    "resolving-file-io.enabled": "the client of each location is chosen by its scheme",
    "sync-all-properties": _NO_METASTORE,
    "uri": _NO_METASTORE,
}


# Options that a pipeline or a command reads itself.
ACTING = ("warehouse", "metastore", "table.type")
_NEAR = 0.85


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for a name that resembles a catalog option. The store checks all other names."""
    known = [*ACTING, *WITHOUT_EFFECT]
    for name in names:
        near = nearest(name, known, cutoff=_NEAR)
        if near and name not in known:
            raise ConfigError(f"{name!r} is not a catalog option", option=name, hint=f"did you mean {near}?")


def check_catalog(options: Mapping[str, str]) -> None:
    """Raise ConfigError for a metastore or external tables, and log each catalog option that has no effect, once."""
    metastore = options.get("metastore", "filesystem").strip().lower()
    if metastore != "filesystem":
        raise metastore_unknown(metastore)
    if options.get("table.type", "managed").strip().lower() == "external":
        raise ConfigError(
            "table.type = external is not supported: dropping a table deletes its folder",
            option="table.type",
            hint="create tables outside of the warehouse with penstock.create_table(path, ...)",
        )
    for name in options.keys() & WITHOUT_EFFECT.keys():
        _warn(name)


def metastore_unknown(metastore: str) -> ConfigError:
    """Return the error for a metastore that is not supported."""
    return ConfigError(
        f"metastore = {metastore} is not supported: a warehouse is a folder",
        option="metastore",
        hint="remove metastore (and uri), and set the warehouse to the folder. A Hive, JDBC or REST catalog of these"
        " tables is not notified of changes made here",
    )


@functools.lru_cache(maxsize=256)
def _warn(name: str) -> None:
    """Log the warning, once per process and option."""
    log.warning('catalog option has no effect option=%s instead="%s"', name, WITHOUT_EFFECT[name])
