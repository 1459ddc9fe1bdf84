"""Translates a Flink CDC file with the sink paimon into a pipeline, so that the file runs unchanged.

The connector translates the source. Keys that concern only Flink are logged once and otherwise ignored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError, did_you_mean
from penstock.ingest.connector import Connector
from penstock.ingest.connectors import CONNECTORS, only_types
from penstock.ingest.sync_actions import TranslatedSource
from penstock.pipelines.config.flink_cdc_changes import CASTS, EVOLVING, events, followed_statements
from penstock.table_pattern import TablePattern

log = logging.getLogger(__name__)

_CATALOG, _TABLE = "catalog.properties.", "table.properties."
# Keys with an effect here. Flink CDC's other keys are logged as without effect. Keys that it does not know are refused,
# as it refuses them: a misspelt key would otherwise copy columns or follow changes that the file excludes.
_PIPELINE = {"name", "parallelism", "local-time-zone", "schema.change.behavior", "execution.runtime-mode", "route-mode"}
_PIPELINE_OF_FLINK = {
    "schema.operator.uid",
    "schema-operator.rpc-timeout",
    "operator.uid.prefix",
    "sink.partitioning.strategy",
    "transform.decimal.precision.mode",
    "flink-conf",
}
_SECTIONS = {"source", "sink", "route", "transform", "pipeline"}
_REFUSED = {"user-defined-function": "user-defined functions", "model": "models", "udf": "user-defined functions"}
_EXPRESSIONS = "remove it, and write expressions with the functions that docs/transforms.md lists"
_ROUTE = {"source-table", "sink-table", "replace-symbol", "description"}
_TRANSFORM = {
    "source-table",
    "projection",
    "filter",
    "primary-keys",
    "partition-keys",
    "table-options",
    "table-options.delimiter",
    "converter-after-transform",
    "description",
}
_SINK = {"type", "name", "partition.key", "include.schema.changes", "exclude.schema.changes"}
_SINK_OF_FLINK = {"commit.user", "commit.user-prefix"}
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
    _check_keys(values, _SECTIONS, "")
    pipeline, source, sink = (_section(values, name) for name in ("pipeline", "source", "sink"))
    routes, transforms = (_rules(values, name) for name in ("route", "transform"))
    first_counts = str(pipeline.get("route-mode", "")).lower().replace("-", "_") == "first_match"
    _refuse_second_rules([] if first_counts else routes, transforms)
    made, translated_source = _pipeline(pipeline, passed), _source(source)
    passed += [f"source.{key}" for key in translated_source.without_effect]
    found: dict[str, Any] = {
        "pipeline": made | translated_source.pipeline,
        "source": translated_source.section,
        "sink": _sink(sink, passed) | translated_source.sink,
        "route": [_kept(rule, _ROUTE, f"route.{number}") for number, rule in enumerate(routes)],
        "transform": [_transform(rule, f"transform.{number}") for number, rule in enumerate(transforms)],
    }
    behavior, tables = found["pipeline"]["schema.change.behavior"], found["source"].get("tables", ())
    if ddl := followed_statements(behavior, found["sink"], tables):
        found["source"] = {**found["source"], "ddl": ddl}
    if behavior in EVOLVING:
        found["sink"] = {**found["sink"], "type-mapping": [*found["sink"].get("type-mapping", ()), *CASTS]}
    if passed:
        log.warning("event=flink_keys_without_effect keys=%s", ",".join(passed))
    return found


def _check_keys(given: Mapping[str, Any], known: set[str], section: str) -> None:
    """Raise ConfigError for a key that Flink CDC does not know either."""
    if unknown := next((key for key in given if key not in known), None):
        raise ConfigError(
            f"Flink CDC does not know the key `{unknown}`",
            key=f"{section}.{unknown}".lstrip("."),
            hint=did_you_mean(unknown, sorted(known), "remove it"),
        )


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = values.get(name) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"`{name}` must be a mapping of keys and values",
            key=name,
            hint="write it as  key: value  lines below its name",
        )
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
            earlier = (rule for rule in rules[:number] if name == "route" or rule.get("filter"))
            if any(_shares(str(before.get("source-table")), str(rule.get("source-table"))) for before in earlier):
                raise ConfigError(
                    f"a {name} matches tables of an earlier one",
                    key=f"{name}.{number}.source-table",
                    source_table=rule.get("source-table"),
                    hint=_ONE_TARGET if name == "route" else _ONE_RULE,
                )


_ONE_RULE = (
    "only the first matching rule of a table is applied here, as in Flink CDC since 3.6; older versions pass the rows "
    "that its filter drops to the next rule. Leave the tables of the first rule out of the second one, for example with"
    "  mydb.(?!web_order$)\\.*  , or distinguish rows with  CASE WHEN ... END"
)
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
            raise ConfigError(f"{_REFUSED[key]} are not supported", key=f"pipeline.{key}", hint=_EXPRESSIONS)
    _check_keys(given, _PIPELINE | _PIPELINE_OF_FLINK, "pipeline")
    passed += [f"pipeline.{key}" for key in given if key in _PIPELINE_OF_FLINK]
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
        raise ConfigError(
            f"Flink CDC sources of type {kind} are not supported",
            key="source.type",
            hint=only_types("reads_flink_cdc")
            if connector is None or not connector.url_form
            else _other_file(connector),
        )
    return connector.from_flink_cdc(given)


def _other_file(connector: Connector[Any]) -> str:
    return (
        f"penstock init {connector.url_form} WAREHOUSE  writes a pipeline file of Penstock for such a source; its "
        "transforms and routes are written as in this file, with  dialect: flink-cdc  in each transform"
    )


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
        parted = (part.split(":", 1) for part in str(partition).split(";") if ":" in part)
        # Flink CDC names tables with their database, as in app_db.orders:dt; Paimon's flag has only the table.
        made["multiple-table-partition-keys"] = {
            name.strip().rpartition(".")[2]: [key.strip() for key in keys.split(",")] for name, keys in parted
        }
    for key in _LIST:
        if key in given:
            made[key] = events(given[key])
    own = {key: value for key, value in given.items() if not key.startswith((_CATALOG, _TABLE))}
    _check_keys(own, _SINK | _SINK_OF_FLINK, "sink")
    passed += [f"sink.{key}" for key in own if key in _SINK_OF_FLINK]
    return made


def _transform(rule: Mapping[str, Any], place: str) -> dict[str, Any]:
    if rule.get("converter-after-transform"):
        raise ConfigError(
            "converter-after-transform is not supported",
            key=f"{place}.converter-after-transform",
            hint="remove it; in a pipeline file of Penstock  sink: {deletes: soft}  keeps deleted rows with a mark",
        )
    made = _kept(rule, _TRANSFORM, place)
    made.pop("converter-after-transform", None)
    if delimiter := str(made.pop("table-options.delimiter", "")):
        options = (part.partition("=") for part in str(made.get("table-options", "")).split(delimiter) if part.strip())
        made["table-options"] = {key.strip(): value.strip() for key, _, value in options}
    if "projection" in made:
        # in a Flink CDC file the asterisk is escaped because of YAML
        made["projection"] = made["projection"].replace("\\*", "*")
    return made | {"dialect": "flink-cdc"}


def _kept(rule: Mapping[str, Any], known: set[str], place: str) -> dict[str, Any]:
    _check_keys(rule, known, place)
    return {key: value for key, value in rule.items() if value is not None}


def _under(given: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): str(value) for key, value in given.items() if key.startswith(prefix)}
