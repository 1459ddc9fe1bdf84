"""The known connectors: Penstock's own, and the connectors that packages add by entry points."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError, nearest
from penstock.extensions import Extensions
from penstock.ingest.connector import DESCRIBES, READS_FLINK_CDC, URL_SCHEMES, Connector, SourceConfig, missing_method


def _check_methods(connector: Connector[Any]) -> None:
    """Raise ConfigError if a capability is declared whose methods the class does not have.

    Checked when a connector is looked up, so that a pipeline does not find out in the middle of its preparation.
    """
    kind, capabilities = type(connector), connector.capabilities
    needed = (
        (capabilities.describes_tables, kind.tables is Connector.tables, "tables", DESCRIBES),
        (capabilities.describes_tables, kind.capture is Connector.capture, "capture", DESCRIBES),
        (
            capabilities.reads_flink_cdc,
            kind.from_flink_cdc is Connector.from_flink_cdc,
            "from_flink_cdc",
            READS_FLINK_CDC,
        ),
        (bool(connector.url_schemes), kind.draft is Connector.draft, "draft", URL_SCHEMES),
    )
    for is_declared, is_missing, method, declared in needed:
        if is_declared and is_missing:
            raise missing_method(connector, method, declared)


CONNECTORS: Extensions[Connector[Any]] = Extensions(
    "penstock.connectors",
    Connector,
    {
        "kafka": "penstock.ingest.kafka.connector:CONNECTOR",
        "files": "penstock.ingest.files.connector:CONNECTOR",
        "mysql": "penstock.ingest.mysql.connector:CONNECTOR",
        "postgres": "penstock.ingest.postgres.connector:CONNECTOR",
        "pulsar": "penstock.ingest.pulsar.connector:CONNECTOR",
        "mongodb": "penstock.ingest.mongodb.connector:CONNECTOR",
        # By its name only: it reads tables, which ingest/ does not know.
        "table": "penstock.pipelines.table_source.connector:CONNECTOR",
    },
    check=_check_methods,
)


def connector_named(name: str) -> Connector[Any]:
    """Return the connector of a source type; ConfigError, with the names of all types, if it is unknown."""
    found = CONNECTORS.find(name)
    if found is None:
        raise unknown_type(name)
    return found


def connector_of(config: SourceConfig) -> Connector[Any]:
    """Return the connector that a validated section belongs to."""
    return connector_named(config.type)


def unknown_type(name: str | None, **facts: object) -> ConfigError:
    """Return the error for a source of a missing (None) or unknown type."""
    *names, last = CONNECTORS.names()
    known = f"the types are {', '.join(names)} and {last}"
    if name is None:
        return ConfigError("`type` is missing", hint=known, **facts)
    near = nearest(name, [*names, last])
    hint = f"did you mean {near}? {known}" if near else known
    return ConfigError(f"unknown source type {name!r}", hint=hint, **facts)


def only_types(capability: str) -> str:
    """Return a hint with the types of sources that have a capability."""
    found = (CONNECTORS.find(name) for name in CONNECTORS.built_in)
    names = [
        connector.name for connector in found if connector is not None and getattr(connector.capabilities, capability)
    ]
    return f"sources of type {', '.join(names)} can"


def connector_of_url(place: str) -> Connector[Any]:
    """Return the connector that drafts a section for this place: by the scheme of its URL, or for a plain path."""
    scheme = place.partition("://")[0] if "://" in place else ""
    known = CONNECTORS.importable().values()
    for connector in known:
        if scheme in connector.url_schemes:
            return connector
    raise ConfigError(
        f"{place!r} is not a source",
        hint="write  " + ",  or  ".join(connector.url_form for connector in known if connector.url_form),
    )
