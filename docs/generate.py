"""Write the parts of the pages that follow from the code: python -m docs.generate. A test holds them current."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from docs.effects import EFFECTS
from docs.event_pages import log_events
from docs.option_pages import catalog_options, table_options
from penstock.ingest.database.connector import DatabaseSnapshot
from penstock.ingest.files.connector import FilesConfig
from penstock.ingest.kafka.config import Debezium, KafkaConfig, KafkaStartup
from penstock.ingest.mongodb import config as mongodb_config
from penstock.ingest.mysql import config as mysql_config
from penstock.ingest.postgres import config as postgres_config
from penstock.ingest.pulsar.config import PulsarConfig, PulsarStartup
from penstock.pipelines.config import model, rules, sink
from penstock.schema_evolution.expressions.functions import FUNCTIONS
from penstock.schema_evolution.masks import FORMS
from penstock.settings import Strict, seconds, share, size

DOCS = Path(__file__).resolve().parent


def functions() -> str:
    return _table("function | result", ([f"`{function.form}`", function.does] for function in FUNCTIONS.values()))


def masks() -> str:
    return _table("mask | result", ([f"`{form}`", does] for form, does in FORMS))


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n" + "\n".join(lines) + "\n\n"


def options() -> str:
    """Every key of a pipeline file, from the model that reads it."""
    return "".join(_section(title, model) for title, model in SECTIONS)


def _section(title: str, model: type[Strict]) -> str:
    rows = [
        (f"`{field.alias or name}`", _kind(field), _default(field), _effect(title, field.alias or name, field))
        for name, field in model.model_fields.items()
    ]
    doc = inspect.cleandoc(model.__doc__ or "").replace("\n", " ") if "__doc__" in vars(model) and model.__doc__ else ""
    text = f"\n{doc}\n" if doc else ""
    return f"\n## {title}\n{text}{_table('key | value | default | effect', rows)}"


def _effect(title: str, key: str, field: FieldInfo) -> str:
    return field.description or EFFECTS[title].get(key, "")


def _kind(field: FieldInfo) -> str:
    names = {seconds: "duration", size: "size", share: "share"}
    # Durations and sizes are numbers to pydantic. The functions that parse their texts show what they are.
    given = (getattr(constraint, "func", None) for constraint in field.metadata)
    return next((names[constraint] for constraint in given if constraint in names), _type(field.annotation))


def _type(annotation: object) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in inner)
    if origin in {UnionType, Union}:
        # None means that the key is not set, which is no value that a file can have.
        return " or ".join(dict.fromkeys(_type(part) for part in inner if part is not NoneType))
    if origin is tuple:
        return "list"
    if origin is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return "section"
    return {str: "text", int: "number", float: "number", bool: "`true` or `false`"}.get(annotation, "text")  # type: ignore[call-overload]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}) or isinstance(value, Strict):
        return ""
    shown = f"{value:g}s" if _kind(field) == "duration" and isinstance(value, float) else str(value)
    return f"`{shown.lower() if isinstance(value, bool) else shown}`"


SECTIONS: tuple[tuple[str, type[Strict]], ...] = (
    ("pipeline", model.PipelineConfig),
    ("pipeline: max-batch", model.MaxBatch),
    ("pipeline: on-error", model.OnError),
    ("source of type kafka", KafkaConfig),
    ("source of type kafka: startup", KafkaStartup),
    ("source of type kafka: debezium", Debezium),
    ("source of type pulsar", PulsarConfig),
    ("source of type pulsar: startup", PulsarStartup),
    ("source of type mysql", mysql_config.MySqlConfig),
    ("source of type mysql: startup", mysql_config.MySqlStartup),
    ("source of type mysql: snapshot", mysql_config.MySqlSnapshot),
    ("source of type mysql: ddl", mysql_config.MySqlDdl),
    ("source of type mysql: ssl", mysql_config.Ssl),
    ("source of type postgres", postgres_config.PostgresConfig),
    ("source of type postgres: startup", postgres_config.PostgresStartup),
    ("source of type postgres: snapshot", postgres_config.PostgresSnapshot),
    ("source of type postgres: ddl", postgres_config.PostgresDdl),
    ("source of type postgres: publication", postgres_config.PostgresPublication),
    ("source of type postgres: ssl", postgres_config.PostgresSsl),
    ("source of type mongodb", mongodb_config.MongoConfig),
    ("source of type mongodb: startup", mongodb_config.MongoStartup),
    ("source of type mongodb: snapshot", DatabaseSnapshot),
    ("source of type mongodb: documents", mongodb_config.MongoDocuments),
    ("source of type files", FilesConfig),
    ("selection", model.SelectionConfig),
    ("transform: a list of", rules.TransformConfig),
    ("expect: a list of", rules.ExpectConfig),
    ("route: a list of", rules.RouteConfig),
    ("sink", sink.SinkConfig),
    ("sink: catalog", sink.CatalogConfig),
    ("sink: compaction", sink.Compaction),
    ("sink: expire", sink.Expire),
    ("sink: schema-sample", sink.SchemaSample),
    ("sink: naming", sink.NamingConfig),
    ("errors", model.Errors),
    ("errors: dead-letter", model.DeadLetter),
    ("errors: skip", model.BadRecordLimits),
    ("observe", model.Observe),
    ("observe: log", model.Log),
    ("observe: notify", model.Notify),
)

PARTS = {
    "log-events.md": {"events": log_events},
    "options.md": {"options": options},
    "table-options.md": {"options": table_options, "catalog": catalog_options},
    "transforms.md": {"functions": functions, "masks": masks},
}


def generated(page: str) -> str:
    """The page with its generated parts as they should be."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, part in PARTS[page].items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda found, part=part: found[1] + part() + found[2], text)
        if count != 1:
            raise ValueError(f"{page} has no place for {name}")
    return text


if __name__ == "__main__":
    for page in PARTS:
        (DOCS / page).write_text(generated(page), encoding="utf-8")
