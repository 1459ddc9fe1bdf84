"""Options of Paimon's catalogs, and the effect of each option in a warehouse that is a plain folder.

Commands pass catalog options together with the options of the store, so they are checked where the store is opened.
Other kinds of catalogs divide the two first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable, Mapping

from penstock.errors import ConfigError, nearest
from penstock.storage.options import is_store_option

log = logging.getLogger(__name__)

_NO_METASTORE = "no metastore is used: databases and tables are the folders of the warehouse"
_NO_CACHE = "metadata is not cached between reads"
_NO_LOCK = "commits need no lock: a snapshot file is created only if it does not exist"
_NO_SERVER = "no REST server is used"
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
    "data-token.enabled": _NO_SERVER,
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
    "token": _NO_SERVER,
    "token.provider": _NO_SERVER,
    "uri": _NO_METASTORE,
}


# Options that a pipeline or a command reads itself.
ACTING = ("warehouse", "metastore", "table.type")
PREFIXES = ("jdbc.", "header.", "dlf.")  # of options that are properties of a catalog's client
_NEAR = 0.85


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for a name that resembles a catalog option. The store checks all other names."""
    known = [*ACTING, *WITHOUT_EFFECT]
    for name in names:
        near = nearest(name, known, cutoff=_NEAR)
        if near and name not in known:
            raise ConfigError(f"{name!r} is not a catalog option", option=name, hint=f"did you mean {near}?")


def is_catalog_option(name: str) -> bool:
    """Return whether an option concerns a catalog of some kind, and not its store."""
    return name in ACTING or name in WITHOUT_EFFECT or name.startswith(PREFIXES)


def split_options(
    metastore: str, options: Mapping[str, str], acting: Collection[str], prefix: str | tuple[str, ...] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options that act on a catalog of this kind, and the options of its store.

    `prefix` is the prefix of a family of options that act too; it may be several prefixes. Other options of catalogs
    are logged once; ConfigError for a name that is neither.
    """
    own: dict[str, str] = {}
    store: dict[str, str] = {}
    for name, value in options.items():
        # Checked before WITHOUT_EFFECT, which lists the options that a plain folder does not use. Some of them, such
        # as uri, act on other catalogs.
        if name in acting or name.startswith(prefix):
            own[name] = value
        elif name in WITHOUT_EFFECT:
            _warn(name, f"it is not used by metastore = {metastore}")
        elif name not in ACTING:
            if not is_store_option(name):
                near = nearest(name, [*acting, *ACTING])
                hint = f"did you mean {near}?" if near else "remove it"
                raise ConfigError(f"{name!r} is not an option of a {metastore} catalog", option=name, hint=hint)
            store[name] = value
    check_managed(options)
    return own, store


def check_catalog(options: Mapping[str, str]) -> None:
    """Raise ConfigError for a metastore or external tables, and log each catalog option that has no effect, once."""
    metastore = options.get("metastore", "filesystem").strip().lower()
    if metastore != "filesystem":
        raise ConfigError(
            f"metastore = {metastore} is not supported for a path: a table that is opened by its path has no catalog",
            option="metastore",
            hint="open it by its name, with penstock.Catalog(warehouse, options).table('database.table')",
        )
    check_managed(options)
    for name in options.keys() & WITHOUT_EFFECT.keys():
        _warn(name, WITHOUT_EFFECT[name])


def check_managed(options: Mapping[str, str]) -> None:
    """Raise ConfigError when tables of the catalog are to be external."""
    if options.get("table.type", "managed").strip().lower() == "external":
        raise ConfigError(
            "table.type = external is not supported: dropping a table deletes its folder",
            option="table.type",
            hint="create tables outside of the warehouse with penstock.create_table(path, ...)",
        )


def metastore_unknown(metastore: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a metastore that is not supported."""
    return ConfigError(
        f"metastore = {metastore} is not supported",
        option="metastore",
        hint=f"choices are {', '.join(known)}. With filesystem, set the warehouse to the folder of the tables; another"
        " catalog of these tables is then not notified of changes made here",
    )


@functools.lru_cache(maxsize=256)
def _warn(name: str, instead: str) -> None:
    """Log the warning, once per process and option."""
    log.warning('event=catalog_option_without_effect option=%s instead="%s"', name, instead)
