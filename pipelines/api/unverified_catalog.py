"""Connections to the server of a catalog on which nothing verifies who the server is."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from penstock.ingest.connector_answers import SourceFinding, unverified
from penstock.pipelines.config.sink import CatalogConfig
from penstock.references import resolve

_VERIFYING = {"verify_ca", "verify_identity", "verify-ca", "verify-full"}


def unverified_catalog(catalog: CatalogConfig) -> list[SourceFinding]:
    """Return a warning if somebody between this machine and the catalog could read or change the answers."""
    uri = resolve(catalog.options.get("uri", ""))
    scheme, _, rest = uri.removeprefix("jdbc:").partition("://")
    if not rest:
        return []  # a folder, or a file of SQLite
    # Each of several metastores is a URI of its own.
    places = [part.strip().rpartition("://")[2] for part in rest.partition("?")[0].split(",")]
    hosts = [urlsplit(f"//{place.partition('/')[0]}").hostname or "" for place in places]
    match catalog.metastore:
        case "rest" if scheme == "http":
            return unverified(hosts, "the uri of the catalog begins with http:", "a uri that begins with https:")
        case "hive":
            return unverified(hosts, "thrift does not verify the metastore", "reach it through a tunnel with TLS")
        case "jdbc":
            given = dict(parse_qsl(rest.partition("?")[2]))
            given |= {name.removeprefix("jdbc."): text for name, text in catalog.options.items()}
            mode = given.get("sslMode") or given.get("sslmode") or "the default"
            if mode.lower() not in _VERIFYING:
                fix = "jdbc.sslMode: VERIFY_IDENTITY  (PostgreSQL:  jdbc.sslmode: verify-full )"
                return unverified(hosts, f"{mode} of sslMode does not verify the database of the catalog", fix)
    return []
