"""A Flink CDC `mysql -> paimon` file as one of ours: it runs as it is; keys that only concern Flink are named once."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, get_args

from penstock.errors import ConfigError
from penstock.pipelines.spec.mysql_conf import has_effect, mysql_source
from penstock.pipelines.spec.rules import EventType

log = logging.getLogger(__name__)

_CATALOG, _TABLE = "catalog.properties.", "table.properties."
_SOURCE_APART = {"type", "name", "tables", "tables.exclude"}
_PIPELINE = {"name", "parallelism", "local-time-zone", "schema.change.behavior", "execution.runtime-mode"}
_REFUSED = {"user-defined-function": "functions of Java", "model": "models", "udf": "functions of Java"}
_ROUTE = {"source-table", "sink-table", "replace-symbol", "description"}
_TRANSFORM = {
    "source-table",
    "projection",
    "filter",
    "primary-keys",
    "partition-keys",
    "table-options",
    "description",
}
_SINK = {"type", "name", "commit.user", "partition.key", "include.schema.changes", "exclude.schema.changes"}
_LIST = ("include.schema.changes", "exclude.schema.changes")


def is_flink_cdc(values: Mapping[str, Any]) -> bool:
    """Told by its flat catalog keys, which no file of ours has."""
    sink = values.get("sink")
    return isinstance(sink, dict) and any(str(key).startswith(_CATALOG) for key in sink)


def translated(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same pipeline in our keys. ConfigError for what would change rows and has no counterpart here."""
    passed: list[str] = []
    found = {
        "pipeline": _pipeline(values.get("pipeline") or {}, passed),
        "source": _source(values.get("source") or {}, passed),
        "sink": _sink(values.get("sink") or {}, passed),
        "route": [_kept(rule, _ROUTE, "route", passed) for rule in values.get("route") or ()],
        "transform": [_transform(rule, passed) for rule in values.get("transform") or ()],
    }
    passed += [key for key in values if key not in found]
    if passed:
        log.warning("event=flink_keys_without_effect keys=%s", ",".join(passed))
    return found


def _pipeline(given: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    for key in given:
        if key in _REFUSED:
            raise ConfigError(f"{_REFUSED[key]} cannot be called from here", key=f"pipeline.{key}")
    passed += [f"pipeline.{key}" for key in given if key not in _PIPELINE]
    made: dict[str, Any] = {"schema.change.behavior": str(given.get("schema.change.behavior") or "lenient").lower()}
    if name := re.sub(r"[^A-Za-z0-9._-]+", "-", str(given.get("name") or "")).strip("-"):
        made["name"] = name
    if given.get("parallelism"):
        made["parallelism"] = given["parallelism"]
    if given.get("local-time-zone"):
        made["local-time-zone"] = given["local-time-zone"]
    if str(given.get("execution.runtime-mode") or "").upper() == "BATCH":
        made["until"] = "caught-up"
    return made


def _source(given: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    if given.get("type") != "mysql":
        raise ConfigError(f"a Flink CDC source of type {given.get('type')} is not known here", hint="only mysql is")
    conf = {key: str(value) for key, value in given.items() if key not in _SOURCE_APART and value is not None}
    for key in conf:
        if (effect := has_effect(key)) is None:
            log.warning("event=source_key_unknown key=%s", key)
        if not effect:
            passed.append(f"source.{key}")
    known = {key: value for key, value in conf.items() if has_effect(key)}
    made = mysql_source(_NEEDED | known, names_table=True)
    # What the file does not say is told as missing by the model, in our words.
    for key in _NEEDED.keys() - known.keys():
        made.pop(key)
    return {**made, "tables": _listed(given.get("tables")), "tables.exclude": _listed(given.get("tables.exclude"))}


_NEEDED = dict.fromkeys(("hostname", "username", "password", "database-name", "table-name"), "-")


def _listed(given: object) -> list[str]:
    """Names parted by commas that stand in no bracket."""
    return [part.strip() for part in re.split(r",(?![^(\[{]*[)\]}])", str(given or "")) if part.strip()]


def _sink(given: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    if given.get("type") != "paimon":
        raise ConfigError(f"a Flink CDC sink of type {given.get('type')} is not known here", hint="only paimon is")
    catalog = _under(given, _CATALOG)
    made: dict[str, Any] = {
        "catalog": {"warehouse": catalog.pop("warehouse", None), "metastore": catalog.pop("metastore", "filesystem")},
        "table-options": _under(given, _TABLE),
    }
    made["catalog"]["options"] = catalog
    if partition := given.get("partition.key"):
        parted = (one.split(":", 1) for one in str(partition).split(";") if ":" in one)
        made["multiple-table-partition-keys"] = {
            name.strip().rpartition(".")[2]: [key.strip() for key in keys.split(",")] for name, keys in parted
        }
    for key in _LIST:
        if key in given:
            made[key] = _events(given[key])
    passed += [
        f"sink.{key}" for key in given if key not in _SINK - {"commit.user"} and not key.startswith((_CATALOG, _TABLE))
    ]
    return made


def _events(given: Any) -> list[str]:
    """`add` stands for all events whose name begins with it."""
    written = [str(one).strip() for one in (given if isinstance(given, list) else str(given).strip("[]").split(","))]
    return [
        event for event in get_args(EventType) if any(event == one or event.startswith(f"{one}.") for one in written)
    ]


def _transform(rule: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    if rule.get("converter-after-transform"):
        raise ConfigError(
            "converter-after-transform has no counterpart here",
            hint="deletes are deletes; keep them by a changelog-producer",
        )
    made = _kept(rule, _TRANSFORM, "transform", passed)
    if "projection" in made:
        made["projection"] = made["projection"].replace("\\*", "*")  # escaped, for the sake of YAML
    return made


def _kept(rule: Mapping[str, Any], known: set[str], section: str, passed: list[str]) -> dict[str, Any]:
    passed += [f"{section}.{key}" for key in rule if key not in known]
    return {key: value for key, value in rule.items() if key in known and value is not None}


def _under(given: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): str(value) for key, value in given.items() if key.startswith(prefix)}
