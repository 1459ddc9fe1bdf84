"""Translates a Flink CDC file with the sink paimon into a pipeline, so that the file runs unchanged.

The connector translates the source. Keys that concern only Flink are logged once and otherwise ignored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, get_args

from penstock.errors import ConfigError
from penstock.ingest.connectors import CONNECTORS, only_types
from penstock.ingest.sync_actions import TranslatedSource
from penstock.pipelines.config.rules import EventType
from penstock.table_pattern import TablePattern

log = logging.getLogger(__name__)

_CATALOG, _TABLE = "catalog.properties.", "table.properties."
# Keys with an effect here. All others of a section are logged as without effect.
_PIPELINE = {"name", "parallelism", "local-time-zone", "schema.change.behavior", "execution.runtime-mode", "route-mode"}
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
    """Return whether the values are a Flink CDC file. Its flat catalog keys occur in no Penstock file."""
    sink = values.get("sink")
    return isinstance(sink, dict) and any(str(key).startswith(_CATALOG) for key in sink)


def translated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same pipeline under Penstock's keys.

    Raise ConfigError for settings that would change rows and have no counterpart here.
    """
    passed: list[str] = []
    pipeline, source, sink = (_section(values, name) for name in ("pipeline", "source", "sink"))
    routes, transforms = (_rules(values, name) for name in ("route", "transform"))
    first_counts = str(pipeline.get("route-mode", "")).lower().replace("-", "_") == "first_match"
    _refuse_second_rules([] if first_counts else routes, transforms)
    made, translated_source = _pipeline(pipeline, passed), _source(source)
    passed += [f"source.{key}" for key in translated_source.without_effect]
    found = {
        "pipeline": made | translated_source.pipeline,
        "source": translated_source.section,
        "sink": _sink(sink, passed) | translated_source.sink,
        "route": [_kept(rule, _ROUTE, "route", passed) for rule in routes],
        "transform": [_transform(rule, passed) for rule in transforms],
    }
    passed += [key for key in values if key not in found]
    if passed:
        log.warning("event=flink_keys_without_effect keys=%s", ",".join(passed))
    return found


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = values.get(name) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"`{name}` must be a mapping of keys and values", key=name)
    return given


def _rules(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    given = values.get(name) or []
    if not isinstance(given, list) or not all(isinstance(rule, Mapping) for rule in given):
        raise ConfigError(
            f"`{name}` must be a list of rules", key=name, hint="begin each rule with  - source-table: ..."
        )
    return given


def _refuse_second_rules(routes: list[Mapping[str, Any]], transforms: list[Mapping[str, Any]]) -> None:
    """Raise ConfigError when a second rule matches tables of an earlier one.

    Flink CDC applies every route that matches, and passes rows that a transform filters out to the next transform. Here
    only the first matching rule of a table applies, so a second one would be ignored silently.
    """
    for name, rules in (("route", routes), ("transform", [rule for rule in transforms if rule.get("source-table")])):
        for number, rule in enumerate(rules):
            earlier = (one for one in rules[:number] if name == "route" or one.get("filter"))
            if any(_shares(str(one.get("source-table")), str(rule.get("source-table"))) for one in earlier):
                raise ConfigError(
                    f"a {name} matches tables of an earlier one",
                    key=f"{name}.{number}.source-table",
                    source_table=rule.get("source-table"),
                    hint=_ONE_TARGET if name == "route" else _ONE_RULE,
                )


_ONE_RULE = "only the first matching rule of a table is applied: distinguish rows with  CASE WHEN ... END"
_ONE_TARGET = (
    "Flink CDC writes such a table to both targets. To apply only the first matching route (a catch-all after "
    "special ones), set  pipeline: {route-mode: FIRST_MATCH} ; to write both targets, use a pipeline file for "
    "each"
)


def _shares(earlier: str, later: str) -> bool:
    """Return whether the later pattern repeats the earlier one, or matches the single table that it names."""
    database, _, table = earlier.partition(".")
    named = re.fullmatch(r"[\w-]+", database) and re.fullmatch(r"[\w-]+", table)
    return earlier == later or (named is not None and TablePattern.of(later).match(database, table) is not None)


def _pipeline(given: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    for key in given:
        if key in _REFUSED:
            raise ConfigError(f"{_REFUSED[key]} are not supported", key=f"pipeline.{key}")
    passed += [f"pipeline.{key}" for key in given if key not in _PIPELINE]
    # The default of Flink CDC is lenient, the default of a Penstock file is evolve.
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


def _source(given: Mapping[str, Any]) -> TranslatedSource:
    kind = given.get("type")
    connector = CONNECTORS.find(str(kind))
    if connector is None or not connector.capabilities.reads_flink_cdc:
        raise ConfigError(f"Flink CDC sources of type {kind} are not supported", hint=only_types("reads_flink_cdc"))
    return connector.from_flink_cdc(given)


def _sink(given: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    if given.get("type") != "paimon":
        raise ConfigError(
            f"Flink CDC sinks of type {given.get('type')} are not supported", hint="only type paimon is supported"
        )
    catalog = _under(given, _CATALOG)
    made: dict[str, Any] = {
        "catalog": {"warehouse": catalog.pop("warehouse", None), "metastore": catalog.pop("metastore", "filesystem")},
        "table-options": _under(given, _TABLE),
    }
    made["catalog"]["options"] = catalog
    if partition := given.get("partition.key"):
        parted = (one.split(":", 1) for one in str(partition).split(";") if ":" in one)
        # Flink CDC names tables with their database, as in app_db.orders:dt; Paimon's flag has only the table.
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
    """Expand shorthand event names.

    `add`, `column` and `table` mean all events with that word in their name, `all` means every event.
    """
    texts = given if isinstance(given, list) else str(given or "").strip("[]").split(",")
    written = [str(text).strip().lower().removesuffix(".event") for text in texts]
    events = get_args(EventType)
    known = {"all", *events, *(part for event in events for part in event.split("."))}
    if unknown := next((one for one in written if one and one not in known), None):
        raise ConfigError(f"unknown schema change {unknown!r}", hint=f"the schema changes are {', '.join(events)}")
    return [event for event in events if any(one in {"all", event, *event.split(".")} for one in written)]


def _transform(rule: Mapping[str, Any], passed: list[str]) -> dict[str, Any]:
    if rule.get("converter-after-transform"):
        raise ConfigError(
            "converter-after-transform is not supported",
            hint="remove it; in a pipeline file of Penstock  sink: {deletes: soft}  keeps deleted rows with a mark",
        )
    made = _kept(rule, _TRANSFORM, "transform", passed)
    if "projection" in made:
        # in a Flink CDC file the asterisk is escaped because of YAML
        made["projection"] = made["projection"].replace("\\*", "*")
    return made


def _kept(rule: Mapping[str, Any], known: set[str], section: str, passed: list[str]) -> dict[str, Any]:
    passed += [f"{section}.{key}" for key in rule if key not in known]
    return {key: value for key, value in rule.items() if key in known and value is not None}


def _under(given: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): str(value) for key, value in given.items() if key.startswith(prefix)}
